package corpus

import "math/bits"

// Draw returns the n images of a step, as indices for At; see the function.
func (c *Corpus) Draw(seed uint64, step, n int) []int { return Draw(len(c.images), seed, step, n) }

// Draw returns n of 0 to size-1 for a step. It is a function of its arguments
// alone, so that resuming needs no state. Nothing is drawn where n or size is
// below 1, or step below 0.
//
// An epoch is size/n steps over a new permutation; what remains of it is left
// to later epochs. So a number comes at most once in an epoch, and never twice
// in a step unless n exceeds size, where whole permutations follow each other.
func Draw(size int, seed uint64, step, n int) []int {
	if size <= 0 || n <= 0 || step < 0 {
		return nil
	}
	if n > size {
		rounds := (n + size - 1) / size
		var out []int
		for r := range rounds {
			out = append(out, permutation(size, seed, uint64(step)*uint64(rounds)+uint64(r))...)
		}
		return out[:n]
	}
	steps := size / n
	from := step % steps * n
	return permutation(size, seed, uint64(step/steps))[from:][:n:n]
}

// permutation shuffles 0 to n-1 by Fisher and Yates. The generator is spelt
// out, not taken from math/rand, so that a run resumed by another release of
// the program draws the same images.
func permutation(n int, seed, epoch uint64) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	state := mix(mix(seed) ^ epoch)
	for i := n - 1; i > 0; i-- {
		// The bias of the multiplication is below n / 2^64.
		state += 0x9e3779b97f4a7c15
		j, _ := bits.Mul64(mix(state), uint64(i+1))
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
