package corpus

import "math/bits"

// Draw returns the n images of a step, as indices for At. It is a function of
// the seed, the step, n and the corpus alone, so that resuming needs no state.
//
// An epoch is Len()/n steps over a new permutation; what remains of it is left
// to later epochs. So an image comes at most once in an epoch, and never twice
// in a step unless n exceeds Len(), where whole permutations follow each other.
func (c *Corpus) Draw(seed uint64, step, n int) []int {
	if n <= 0 || step < 0 {
		return nil
	}
	size := len(c.images)
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
