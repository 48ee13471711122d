//! Names of topics and namespaces, parsed once.
