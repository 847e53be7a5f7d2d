package main

import (
	"os"
	"runtime/debug"
)

// collectOften makes the garbage collector keep a process that holds a model close to what it uses. Its heap is a few large
// arrays without pointers, which cost next to nothing to go over. GOGC overrides it.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(20)
	}
}
