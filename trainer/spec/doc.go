// Package spec holds the shared vocabulary of the trainer: a run's configuration, the records of its journal and the
// names of its metrics. It imports the standard library alone, so that the loop, the server and tools all can read it.
package spec
