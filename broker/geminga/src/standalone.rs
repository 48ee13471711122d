//! A broker in one process: the floors built from the ground up, served until a signal, drained, and closed top down.

use std::process::ExitCode;
use std::sync::Arc;

use ledger::LedgerStore;
use ledger::log::SharedLog;
use metadata::namespaces::{self, NamespaceError, NewNamespace, Policies};
use metadata::paths::NamespacePath;
use metadata::tenants::{self, Tenant, TenantError};
use metadata::{Bootstrap, EmbeddedStore, MetadataStore};
use server::{Handle, Server};

use crate::banner::Banner;
use crate::cli::exit;
use crate::config::Config;
use crate::config::checks::exposure;
use crate::config::listeners::BoundPorts;
use crate::endpoints::{self, Endpoints, Published};
use crate::floors;
use crate::running::Running;
use crate::signals;
use crate::start::Prepared;

/// Why a broker did not come up, or did not go down in order.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("cannot open the log: {0}")]
    Log(#[from] ledger::log::OpenError),
    #[error("cannot open the metadata store: {0}")]
    Metadata(#[from] metadata::OpenError),
    #[error("cannot create the standard tenants: {0}")]
    Bootstrap(#[from] metadata::BootstrapError),
    #[error("bootstrapNamespaces: cannot create {namespace}: {reason}. Write each as tenant/namespace")]
    Namespace { namespace: String, reason: String },
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Runs a broker until SIGTERM, SIGINT or a failed log.
pub fn run(prepared: Prepared) -> ExitCode {
    match serve(&prepared) {
        Ok(code) => ExitCode::from(code),
        Err(trouble) => {
            tracing::error!(%trouble, "the broker did not start");
            eprintln!("geminga: {trouble}");
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Storage, from the ground up.
struct Ground {
    log: Arc<SharedLog>,
    metadata: Arc<EmbeddedStore>,
}

fn serve(prepared: &Prepared) -> Result<u8, Trouble> {
    let config = &prepared.loaded.config;
    let directory = &config.storage.data_directory;
    endpoints::remove_stale(directory)?;
    let bound = server::bind(floors::server_settings(config, prepared.data.epoch)?)?;
    let ports = BoundPorts { pulsar: bound.pulsar_port, pulsar_tls: bound.pulsar_tls_port, http: bound.http_port, https: bound.https_port };
    let advertised = config.network.advertised(ports);
    let ground = dig(config)?;
    let endpoints = floors::server_endpoints(&advertised);
    bootstrap(config, &*ground.metadata, &endpoints)?;
    for namespace in &config.network.bootstrap_namespaces {
        add_namespace(config, &*ground.metadata, namespace)?;
    }
    let store: Arc<dyn LedgerStore> = ground.log.clone();
    let metadata: Arc<dyn MetadataStore> = ground.metadata.clone();
    let options = floors::admin_options(config);
    let changes = metadata.clone();
    let mut running = None;
    let service = |handle: Handle| {
        let settings = Arc::new(Running::new(prepared, handle.clone(), changes));
        running = Some(settings.clone());
        admin::service(handle, options, settings)
    };
    let server = bound.start(endpoints, store, metadata, service)?;
    if let Some(running) = running {
        running.resume();
    }
    let announced = announce(prepared, &Endpoints::of(&advertised))?;
    let ended = signals::wait(&*ground.log, &server.handle())?;
    drop(announced);
    Ok(stop(server, ground, ended))
}

fn dig(config: &Config) -> Result<Ground, Trouble> {
    let directory = &config.storage.data_directory;
    let log = SharedLog::open(&directory.join("log"), floors::log_options(config))?;
    let metadata = EmbeddedStore::open(&directory.join("metadata.redb"), floors::metadata_options(config))?;
    Ok(Ground { log: Arc::new(log), metadata: Arc::new(metadata) })
}

fn bootstrap(config: &Config, metadata: &dyn MetadataStore, endpoints: &server::Endpoints) -> Result<(), Trouble> {
    if !config.network.create_default_tenants {
        return Ok(());
    }
    let bundles = config.topics.default_bundles.get();
    let reached_at = floors::cluster(endpoints);
    let created =
        metadata::bootstrap(metadata, &Bootstrap { cluster: &config.network.cluster_name, reached_at, bundles, system_bundles: bundles })?;
    if !created.is_empty() {
        tracing::info!(created = created.join(" "), "first start: Successfully updated the policies on namespace public/default");
    }
    Ok(())
}

/// Adds a namespace, and its tenant, unless they are there.
fn add_namespace(config: &Config, metadata: &dyn MetadataStore, name: &str) -> Result<(), Trouble> {
    let trouble = |reason: String| Trouble::Namespace { namespace: name.to_owned(), reason };
    let (tenant, local) = name.split_once('/').ok_or_else(|| trouble("it has no tenant".to_owned()))?;
    let cluster = config.network.cluster_name.as_str();
    let allowed = Tenant { allowed_clusters: vec![cluster.to_owned()], ..Tenant::default() };
    match tenants::create(metadata, tenant, &allowed, None) {
        Ok(()) | Err(TenantError::Exists(_)) => {}
        Err(error) => return Err(trouble(error.to_string())),
    }
    let fill = NewNamespace { local_cluster: cluster, bundles: config.topics.default_bundles.get(), limit: None };
    match namespaces::create(metadata, NamespacePath::new(tenant, local), Policies::new(), fill) {
        Ok(_) => tracing::info!(namespace = name, "namespace created, as bootstrapNamespaces asks"),
        Err(NamespaceError::Exists(_)) => {}
        Err(error) => return Err(trouble(error.to_string())),
    }
    Ok(())
}

fn announce(prepared: &Prepared, endpoints: &Endpoints) -> Result<Published, Trouble> {
    let config = &prepared.loaded.config;
    let published = endpoints.publish(&config.storage.data_directory)?;
    tracing::info!(
        pulsar = endpoints.pulsar.as_deref().unwrap_or("none"),
        pulsar_tls = endpoints.pulsar_tls.as_deref().unwrap_or("none"),
        http = endpoints.http.as_deref().unwrap_or("none"),
        https = endpoints.https.as_deref().unwrap_or("none"),
        took_ms = u64::try_from(prepared.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "ready"
    );
    let warning = exposure(config);
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    let warnings: Vec<&str> = config.trial.warning().into_iter().chain(warning).collect();
    let banner = Banner {
        data_directory: &config.storage.data_directory,
        io_threads: config.connections.io_threads.get(),
        took: prepared.began.elapsed(),
        advertises: prepared.loaded.advertises.as_deref(),
        warnings: &warnings,
        endpoints,
    };
    banner.show()?;
    Ok(published)
}

/// Drains and closes. A broker whose log failed has nothing left to write.
fn stop(server: Server, ground: Ground, ended: signals::Ended) -> u8 {
    let in_order = match ended {
        signals::Ended::Asked(signal) => {
            tracing::info!(signal, "stopping: letting go of topics");
            server.drain()
        }
        signals::Ended::LogFailed(why) => {
            tracing::error!(why, "stopping: the log failed. What was acknowledged is safe; start again once the disk is well");
            return exit::FAILED;
        }
    };
    ground.log.close();
    if !in_order {
        tracing::warn!("stopped before every topic was let go of; some messages will be delivered again");
        return exit::FAILED;
    }
    tracing::info!("stopped");
    exit::OK
}
