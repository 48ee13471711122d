//! Apache Pulsar's jars, brought by Maven from wherever it is set up to bring them from, once for all runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

/// The release that is measured against. All of its jars have to be of one release, so it is pinned here.
pub(super) const VERSION: &str = "5.0.1";

/// What Maven is asked for. Pinned besides: a ZooKeeper whose parent is published, and annotations as new as the Jackson that reads
/// them (the nearest mention in the tree would bring older ones). Left out: libraries for other systems, and the log library
/// of the functions worker, which is not started.
const PROJECT: &str = include_str!("pulsar-pom.xml");

const MAVEN_IS_MISSING: &str = "Apache Pulsar's jars come through Maven, and mvn cannot be started: install Maven 3 (most systems call \
    the package maven), or start Apache Pulsar yourself and give its addresses by --service-url, --admin-url and --pid";

/// A directory with all jars; fetched now if it is not there yet.
pub(super) fn jars() -> anyhow::Result<PathBuf> {
    let home = cache()?.join(format!("pulsar-{VERSION}"));
    let (jars, complete) = (home.join("lib"), home.join("complete"));
    // The project file is part of the mark: when a pin changes, everything is fetched again.
    if fs::read_to_string(&complete).is_ok_and(|fetched| fetched == PROJECT) {
        return Ok(jars);
    }
    fetch(&home, &jars)?;
    fs::write(&complete, PROJECT).with_context(|| format!("{} cannot be written", complete.display()))?;
    Ok(jars)
}

fn cache() -> anyhow::Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME says where jars can be kept")?.join("geminga-perf"))
}

fn fetch(home: &Path, jars: &Path) -> anyhow::Result<()> {
    if jars.exists() {
        fs::remove_dir_all(jars)?;
    }
    fs::create_dir_all(home).with_context(|| format!("{} cannot be made", home.display()))?;
    fs::write(home.join("pom.xml"), PROJECT)?;
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib"]);
    let output = maven.current_dir(home).output().context(MAVEN_IS_MISSING)?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).lines().take(12).collect::<Vec<_>>().join("\n");
        anyhow::bail!("Maven could not bring Apache Pulsar {VERSION} (its project is in {}):\n{said}", home.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_asks_for_the_pinned_release() {
        assert!(PROJECT.contains(&format!("<artifactId>pulsar-broker</artifactId>\n      <version>{VERSION}</version>")));
    }
}
