//! One connection with nothing in between: any command, any bytes, in any order. For tests of the wire, good input and bad.

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::{Command, Frame, FrameDecoder};

use crate::{
    Error, Message, ServiceUrl, TlsOptions,
    connect::{self, connect_command},
    encode::{self, Entry},
    stream::Stream,
    tls::Tls,
};

/// A connection that does only what it is told. It answers no PING.
#[derive(Debug)]
pub struct RawConnection {
    address: Arc<str>,
    stream: Stream,
    decoder: FrameDecoder,
    received: BytesMut,
    /// How long [`RawConnection::recv`] waits.
    pub patience: Duration,
}

const LARGEST: usize = 128 * 1024 * 1024;

impl RawConnection {
    /// Connects to the first host of a service URL and says nothing.
    ///
    /// # Errors
    /// The URL is none, or nobody listens there.
    pub async fn open(service_url: &str) -> Result<Self, Error> {
        Self::open_with(service_url, &TlsOptions::default()).await
    }

    /// Connects to the first host of a service URL, over TLS where the URL says so, and says nothing.
    ///
    /// # Errors
    /// The URL is none, nobody listens there, or one end does not accept the other.
    pub async fn open_with(service_url: &str, tls: &TlsOptions) -> Result<Self, Error> {
        let url = ServiceUrl::parse(service_url)?;
        let address = url.addresses()[0].clone();
        let tls = if url.is_over_tls() { Some(Tls::new(tls)?) } else { None };
        let stream = connect::open(&address, tls.as_ref()).await?;
        let decoder = FrameDecoder::new(LARGEST);
        Ok(Self { address, stream, decoder, received: BytesMut::new(), patience: Duration::from_secs(10) })
    }

    /// Connects and shakes hands.
    ///
    /// # Errors
    /// As [`RawConnection::open`], or the broker did not answer with CONNECTED.
    pub async fn connect(service_url: &str) -> Result<Self, Error> {
        let mut connection = Self::open(service_url).await?;
        connection.send(connect_command(None, None)?).await?;
        match connection.recv().await?.command {
            Command::Connected(_) => Ok(connection),
            other => Err(Error::protocol(&connection.address, format!("CONNECT was answered with {}", other.name()))),
        }
    }

    /// Sends one command.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn send(&mut self, command: impl Into<Command>) -> Result<(), Error> {
        let mut bytes = BytesMut::new();
        command.into().encode(&mut bytes);
        self.send_bytes(&bytes).await
    }

    /// Sends a SEND with one message.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn publish(&mut self, producer_id: u64, name: &str, sequence: u64, message: Message) -> Result<(), Error> {
        self.publish_entry(producer_id, name, sequence, Entry::One(message)).await
    }

    /// Sends a SEND with a batch.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn publish_batch(&mut self, producer_id: u64, name: &str, first: u64, messages: Vec<Message>) -> Result<(), Error> {
        self.publish_entry(producer_id, name, first, Entry::Batch(messages)).await
    }

    async fn publish_entry(&mut self, producer_id: u64, name: &str, sequence: u64, entry: Entry) -> Result<(), Error> {
        let mut bytes = BytesMut::new();
        encode::publish(&mut bytes, producer_id, name, sequence, 1, &entry);
        self.send_bytes(&bytes).await
    }

    /// Sends bytes, whatever they are.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let lost = |error: std::io::Error| Error::lost(&self.address, error.to_string());
        self.stream.write_all(bytes).await.map_err(lost)?;
        self.stream.flush().await.map_err(lost)
    }

    /// Waits for the next frame.
    ///
    /// # Errors
    /// The connection is gone, the bytes are no frame, or none came in time.
    pub async fn recv(&mut self) -> Result<Frame, Error> {
        match tokio::time::timeout(self.patience, self.next()).await {
            Ok(frame) => frame,
            Err(_) => Err(Error::TimedOut { request: "waiting for a frame", after: self.patience }),
        }
    }

    /// Waits for the next frame that is no PING.
    ///
    /// # Errors
    /// As [`RawConnection::recv`].
    pub async fn recv_command(&mut self) -> Result<Command, Error> {
        loop {
            match self.recv().await?.command {
                Command::Ping => self.send(Command::Pong).await?,
                command => return Ok(command),
            }
        }
    }

    /// Whether nothing comes for so long, and the connection stays.
    ///
    /// # Errors
    /// The connection is gone, or what comes is no frame.
    pub async fn is_quiet_for(&mut self, time: Duration) -> Result<bool, Error> {
        match tokio::time::timeout(time, self.next()).await {
            Ok(frame) => frame.map(|_| false),
            Err(_) => Ok(true),
        }
    }

    /// Reads on until the broker closes the connection, and returns the commands that came before.
    ///
    /// # Errors
    /// It did not within [`RawConnection::patience`], or sent what is no frame.
    pub async fn until_closed(&mut self) -> Result<Vec<Command>, Error> {
        let mut commands = Vec::new();
        loop {
            match self.recv().await {
                Ok(frame) => commands.push(frame.command),
                Err(Error::Disconnected { .. }) => return Ok(commands),
                Err(error) => return Err(error),
            }
        }
    }

    async fn next(&mut self) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.received).map_err(|e| Error::protocol(&self.address, e.to_string()))? {
                return Ok(frame);
            }
            match self.stream.read_buf(&mut self.received).await {
                Ok(0) => return Err(Error::lost(&self.address, "the broker closed it")),
                Ok(_) => {}
                Err(error) => return Err(Error::lost(&self.address, error.to_string())),
            }
        }
    }
}
