//! Our crates as cargo sees them, and what they drag in.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Prefix of our packages' names; without it they have the names of their rooms.
const OURS: &str = "geminga-";

/// What a dependency is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Running,
    Building,
    Testing,
}

/// One crate of the workspace.
#[derive(Debug)]
pub(crate) struct Room {
    /// Its package's name without our prefix.
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) features: usize,
    dependencies: Vec<(String, For)>,
}

impl Room {
    /// The dependencies it declares for this purpose; ours without the prefix.
    pub(crate) fn declares(&self, purpose: For) -> BTreeSet<&str> {
        self.dependencies.iter().filter(|(_, of)| *of == purpose).map(|(name, _)| name.as_str()).collect()
    }

    pub(crate) fn text(&self, file: &str) -> String {
        let path = self.folder.join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// Where the root `Cargo.toml` is.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the repository")
}

/// All crates of the workspace, by name.
pub(crate) fn rooms() -> BTreeMap<String, Room> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"]).current_dir(root());
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");
    let rooms: BTreeMap<_, _> = list(&json["packages"]).iter().map(room).map(|room| (room.name.clone(), room)).collect();
    assert!(rooms.len() >= 9, "cargo knows only {:?}", rooms.keys());
    rooms
}

fn room(package: &Value) -> Room {
    let folder = Path::new(text(&package["manifest_path"])).parent().expect("a folder").to_owned();
    let dependencies = list(&package["dependencies"]).iter().map(|dependency| {
        let purpose = match dependency["kind"].as_str() {
            None => For::Running,
            Some("build") => For::Building,
            Some(_) => For::Testing,
        };
        (short(text(&dependency["name"])).to_owned(), purpose)
    });
    Room {
        name: short(text(&package["name"])).to_owned(),
        folder,
        features: package["features"].as_object().map_or(0, serde_json::Map::len),
        dependencies: dependencies.collect(),
    }
}

fn short(package: &str) -> &str {
    package.strip_prefix(OURS).unwrap_or(package)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// What every package of `Cargo.lock` depends on, whatever its version; ours without the prefix.
pub(crate) fn locked() -> BTreeMap<String, BTreeSet<String>> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock is committed");
    let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let quoted: Vec<&str> = package.lines().filter_map(|line| line.split('"').nth(1)).collect();
        let name = short(quoted.first().expect("a package has a name")).to_owned();
        let list = package.split_once("dependencies = [").map_or("", |(_, list)| list.split(']').next().unwrap_or_default());
        let names = list.lines().filter_map(|line| line.split('"').nth(1)).filter_map(|entry| entry.split(' ').next());
        packages.entry(name).or_default().extend(names.map(|name| short(name).to_owned()));
    }
    packages
}

/// The way by which a room comes to run with `target`, if there is one: its own choice first, `target` last.
pub(crate) fn way(
    rooms: &BTreeMap<String, Room>,
    locked: &BTreeMap<String, BTreeSet<String>>,
    from: &str,
    target: &str,
) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut open = VecDeque::from([vec![from.to_owned()]]);
    while let Some(mut way) = open.pop_front() {
        let last = way.last().expect("a way begins somewhere").as_str();
        if last == target {
            return Some(way.split_off(1));
        }
        let next: Vec<String> = match rooms.get(last) {
            Some(room) => room.declares(For::Running).into_iter().map(str::to_owned).collect(),
            None => locked.get(last).into_iter().flatten().cloned().collect(),
        };
        for name in next {
            if seen.insert(name.clone()) {
                open.push_back(way.iter().cloned().chain([name]).collect());
            }
        }
    }
    None
}
