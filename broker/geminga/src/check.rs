//! `geminga check`: whether a broker is well, for probes and scripts.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use client::{Http, Method};

use crate::remote::{Reach, explained, refuse_failures};

/// `geminga check`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga check                        whether a message can be written and read back
  geminga check ready                  whether requests are served
  geminga check ready --wait 30        waits up to 30 seconds for it
  geminga check --admin-url https://broker:8443 --tls-trust ca.pem

Exit codes:
  0  the broker is well
  1  it is not, or nothing answers; the last line says why")]
pub struct Check {
    /// What is looked at
    #[arg(value_enum, default_value = "health")]
    pub what: What,
    /// Try again for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub wait: u32,
    /// Where the broker is.
    #[command(flatten)]
    pub reach: Reach,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// A message could be written and read back
    Health,
    /// Requests are served
    Ready,
}

/// How long one try may take, and the pause before the next.
const PAUSE: Duration = Duration::from_millis(200);

/// Looks, until the broker is well or the time is over.
pub fn run(check: &Check) -> anyhow::Result<String> {
    let http = check.reach.http()?;
    let path = match check.what {
        What::Health => "/admin/v2/brokers/health",
        What::Ready => "/admin/v2/brokers/ready",
    };
    let until = Instant::now() + Duration::from_secs(check.wait.into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        loop {
            match look(&http, path).await {
                Ok(said) => return Ok(format!("{said}\n")),
                Err(error) if Instant::now() + PAUSE > until => return Err(error),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    })
}

async fn look(http: &Http, path: &str) -> anyhow::Result<String> {
    let answer = http.ask(Method::GET, path, None).await.map_err(explained)?;
    refuse_failures(http, &Method::GET, path, &answer)?;
    match std::str::from_utf8(&answer.body).map(str::trim) {
        Ok("ok") => Ok("ok".to_owned()),
        Ok(other) => bail!("{}{path} answered `{other}`; is a broker's HTTP side there?", http.url()),
        Err(_) => Err(anyhow!("{}{path} answered with something that is no text", http.url())),
    }
}
