// Package trinity is the outer loop of the Trinity paper: one vision-language model plays Questioner, Solver and, through
// an exponential moving average of itself, Verifier. Figure 1 and sections 2 and A.3 of the paper are followed step by step;
// step.go reads as the algorithm does.
//
// Every random choice comes from a stream keyed by seed, step and purpose, and records are written in a fixed order, so
// that a step run again from the same weights writes the same records.
package trinity
