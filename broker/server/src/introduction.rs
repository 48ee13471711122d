//! CONNECT and what comes of it: who the client is, whether that is believed, and for how long.
//!
//! Where authentication is on, the proof is looked at on a control thread; a client says nothing more until it is answered.

use topic::ConnectionKey;
use wire::proto;
use wire::{Command, NO_REQUEST, ServerError};

use crate::auth::{self, Credentials, Identity, Unproven};
use crate::letter::Letter;
use crate::session::Offence;
use crate::worker::Worker;

/// What a client said of itself in CONNECT.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) client_version: String,
    /// Who it is; none where nobody asks.
    pub(crate) identity: Option<Identity>,
    /// Whether it can be asked for a fresh proof.
    can_refresh: bool,
    /// It was asked and has not answered.
    challenged: bool,
    /// When its proof is looked at next, on the worker's clock.
    next_check_ms: u64,
}

/// What clients answer with a fresh proof.
const REFRESH: &[u8] = b"PulsarAuthRefresh";

impl Worker {
    pub(crate) fn connect(&mut self, key: ConnectionKey, connect: &proto::CommandConnect) -> Result<(), Offence> {
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return Ok(()) };
        if std::mem::replace(&mut connection.introducing, true) {
            return Err("a second CONNECT".into());
        }
        let flags = connect.feature_flags.as_ref();
        let peer = Peer {
            client_version: connect.client_version.chars().filter(|c| !c.is_whitespace()).take(64).collect(),
            identity: None,
            can_refresh: flags.is_some_and(proto::FeatureFlags::supports_auth_refresh),
            challenged: false,
            next_check_ms: 0,
        };
        let version = connect.protocol_version();
        if self.shared.auth.is_none() {
            self.welcome(key, peer, version);
            return Ok(());
        }
        let shown = Credentials {
            method: connect.auth_method_name.clone().filter(|name| !name.is_empty()),
            data: connect.auth_data.as_ref().map(|data| data.to_vec()).unwrap_or_default(),
            certificate: connection.certificate.clone(),
        };
        let original = connect.original_principal.clone();
        let shown_to_proxy = connect.original_auth_data.as_ref().map(|data| Credentials {
            method: connect.original_auth_method.clone(),
            data: data.as_bytes().to_vec(),
            certificate: None,
        });
        let (shared, from) = (self.shared.clone(), connection.address.ip());
        self.shared.control.run(move || {
            let Some(auth) = &shared.auth else { return };
            let outcome =
                auth.identify_from(from, &shown).and_then(|who| auth.speak_for(who, original.as_deref(), shown_to_proxy.as_ref()));
            shared.post(key.worker, Letter::Judgement(Box::new(move |worker| worker.judged(key, peer, version, outcome))));
        });
        Ok(())
    }

    fn judged(&mut self, key: ConnectionKey, mut peer: Peer, version: i32, outcome: Result<Identity, Unproven>) {
        match outcome {
            Ok(identity) => {
                peer.identity = Some(identity);
                self.welcome(key, peer, version);
            }
            Err(error) => self.send_away(key, &error.to_string()),
        }
    }

    fn welcome(&mut self, key: ConnectionKey, mut peer: Peer, version: i32) {
        let connected = proto::CommandConnected {
            server_version: concat!("Geminga ", env!("CARGO_PKG_VERSION")).to_owned(),
            protocol_version: Some(wire::features::negotiated_version(version)),
            max_message_size: Some(i32::try_from(self.shared.settings.max_message_bytes).unwrap_or(i32::MAX)),
            feature_flags: Some(wire::features::broker_flags(self.shared.settings.topic_watchers)),
        };
        let now = self.now.monotonic_ms;
        peer.next_check_ms = now.saturating_add(self.shared.auth.as_ref().map_or(0, auth::Auth::check_every_ms));
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        connection.peer = Some(peer);
        self.tell(key, &connected.into());
    }

    /// The proof is not good: the client is told, then the connection is closed.
    fn send_away(&mut self, key: ConnectionKey, reason: &str) {
        self.stats.authentication_failures += 1;
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        tracing::warn!(peer = %connection.address, reason, "connection closed: authentication failed");
        connection.closing = true;
        self.tell_error(key, NO_REQUEST, ServerError::AuthenticationError, reason);
    }

    /// A fresh proof, after it was asked for.
    pub(crate) fn auth_response(&mut self, key: ConnectionKey, response: &proto::CommandAuthResponse) {
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        let (Some(peer), Some(answer)) = (&connection.peer, &response.response) else { return };
        // Unasked for, or nobody asks at all.
        let Some(before) = peer.identity.clone().filter(|_| peer.challenged) else { return };
        let shown = Credentials {
            method: answer.auth_method_name.clone().filter(|name| !name.is_empty()),
            data: answer.auth_data.as_ref().map(|data| data.to_vec()).unwrap_or_default(),
            certificate: connection.certificate.clone(),
        };
        let shared = self.shared.clone();
        self.shared.control.run(move || {
            let Some(auth) = &shared.auth else { return };
            let outcome = auth.identify(&shown);
            shared.post(key.worker, Letter::Judgement(Box::new(move |worker| worker.refreshed(key, &before, outcome))));
        });
    }

    fn refreshed(&mut self, key: ConnectionKey, before: &Identity, outcome: Result<Identity, Unproven>) {
        // Through a proxy it is the original client that is asked.
        let role = before.original.as_ref().unwrap_or(&before.role);
        match outcome {
            Ok(fresh) if fresh.role == *role => {
                if let Some(peer) = self.connections.get_mut(key.slot, key.generation).and_then(|c| c.peer.as_mut()) {
                    peer.challenged = false;
                    peer.identity = Some(Identity { expires: fresh.expires, ..before.clone() });
                }
            }
            Ok(_) => self.send_away(key, "the fresh credentials are somebody else's"),
            Err(error) => self.send_away(key, &error.to_string()),
        }
    }

    /// Asks for a fresh proof where one has ended; who was asked before and gave none is sent away.
    pub(crate) fn check_proofs(&mut self) {
        let Some(every) = self.shared.auth.as_ref().map(auth::Auth::check_every_ms) else { return };
        let (now, today) = (self.now.monotonic_ms, auth::now());
        let (mut ask, mut ended) = (Vec::new(), Vec::new());
        for (_, _, connection) in self.connections.iter_mut() {
            let key = connection.key;
            let Some(peer) = connection.peer.as_mut().filter(|peer| peer.next_check_ms <= now) else { continue };
            peer.next_check_ms = now.saturating_add(every);
            let Some(identity) = peer.identity.as_ref().filter(|who| who.expires.is_some_and(|at| at <= today)) else { continue };
            if peer.can_refresh && !peer.challenged {
                peer.challenged = true;
                ask.push((key, identity.method));
            } else {
                ended.push(key);
            }
        }
        for (key, method) in ask {
            let challenge = proto::AuthData { auth_method_name: Some(method.to_owned()), auth_data: Some(REFRESH.to_vec().into()) };
            let challenge = proto::CommandAuthChallenge {
                server_version: Some(concat!("Geminga ", env!("CARGO_PKG_VERSION")).to_owned()),
                challenge: Some(challenge),
                protocol_version: Some(wire::features::negotiated_version(i32::MAX)),
            };
            self.tell(key, &Command::from(challenge));
        }
        for key in ended {
            self.send_away(key, "the credentials have expired");
        }
    }
}
