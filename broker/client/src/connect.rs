//! From an address to a connection that has shaken hands.

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use wire::{Command, DEFAULT_MAX_MESSAGE_SIZE, proto};

use crate::{Credentials, Error, driver::Driver, frames::Frames, link::Link, outbox::Outbox, stream::Stream, tls::Tls};

/// The version of the protocol that this client speaks.
pub(crate) const PROTOCOL_VERSION: i32 = 21;
pub(crate) const CLIENT_VERSION: &str = concat!("geminga-client/", env!("CARGO_PKG_VERSION"));

/// What a connection is opened with.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) address: Arc<str>,
    /// The broker behind the proxy that listens at the address.
    pub(crate) behind_proxy: Option<String>,
    pub(crate) patience: Duration,
    pub(crate) keep_alive: Duration,
    /// None in the clear.
    pub(crate) tls: Option<Tls>,
    pub(crate) credentials: Option<Arc<Credentials>>,
}

/// A socket to `host:port`, encrypted where that is asked for.
pub(crate) async fn open(address: &Arc<str>, tls: Option<&Tls>) -> Result<Stream, Error> {
    let stream = TcpStream::connect(&**address).await.map_err(|error| Error::connect(address, &error))?;
    stream.set_nodelay(true).map_err(|error| Error::connect(address, &error))?;
    match tls {
        Some(tls) => tls.over(stream, address).await,
        None => Ok(Stream::Plain(stream)),
    }
}

impl Dial {
    /// Connects, shakes hands, and starts the task that serves the connection.
    pub(crate) async fn connect(self) -> Result<Arc<Link>, Error> {
        match tokio::time::timeout(self.patience, self.shake_hands()).await {
            Ok(link) => link,
            Err(_) => Err(Error::TimedOut { request: "connecting", after: self.patience }),
        }
    }

    async fn shake_hands(&self) -> Result<Arc<Link>, Error> {
        let lost = |error: std::io::Error| Error::lost(&self.address, error.to_string());
        let mut stream = open(&self.address, self.tls.as_ref()).await?;
        let mut hello = BytesMut::new();
        connect_command(self.behind_proxy.clone(), self.credentials.as_deref())?.encode(&mut hello);
        stream.write_all(&hello).await.map_err(lost)?;
        stream.flush().await.map_err(lost)?;
        let mut frames = Frames::new(DEFAULT_MAX_MESSAGE_SIZE);
        let answer = loop {
            if let Some(frame) = frames.next().map_err(|error| Error::protocol(&self.address, error.to_string()))? {
                break frame.command;
            }
            if stream.read_buf(frames.room()).await.map_err(lost)? == 0 {
                return Err(Error::lost(&self.address, "it was closed during the handshake"));
            }
        };
        let max_message_size = match answer {
            Command::Connected(connected) => connected.max_message_size.and_then(|size| usize::try_from(size).ok()),
            Command::Error(error) => {
                return Err(Error::Server { request: "connecting", code: error.error(), message: error.message.as_str().into() });
            }
            other => return Err(Error::protocol(&self.address, format!("CONNECT was answered with {}", other.name()))),
        };
        let max_message_size = max_message_size.filter(|size| *size > 0).unwrap_or(DEFAULT_MAX_MESSAGE_SIZE);
        frames.limit(max_message_size);
        let outbox = Arc::new(Outbox::default());
        let link = Arc::new(Link::new(self.address.clone(), max_message_size, outbox.clone(), self.credentials.clone()));
        tokio::spawn(Driver::new(stream, frames, &link, outbox, self.keep_alive).run());
        Ok(link)
    }
}

/// The CONNECT of this client.
pub(crate) fn connect_command(proxy_to_broker_url: Option<String>, credentials: Option<&Credentials>) -> Result<Command, Error> {
    let auth_data = credentials.map(Credentials::data).transpose()?;
    let connect = proto::CommandConnect {
        auth_method_name: credentials.map(|credentials| credentials.method().to_owned()),
        auth_data: auth_data.map(Into::into),
        client_version: CLIENT_VERSION.to_owned(),
        protocol_version: Some(PROTOCOL_VERSION),
        proxy_to_broker_url,
        feature_flags: Some(proto::FeatureFlags {
            supports_broker_entry_metadata: Some(true),
            supports_auth_refresh: Some(credentials.is_some()),
            ..Default::default()
        }),
        ..Default::default()
    };
    Ok(connect.into())
}
