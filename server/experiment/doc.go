// Package experiment is the server's domain: runs, their curves, episodes, judgements and event feeds, and the Service
// that changes them. It imports no adapter; storage and processes reach it through the interfaces declared here.
package experiment
