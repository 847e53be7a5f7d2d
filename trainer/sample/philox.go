// Package sample draws tokens: counter-based randomness, temperature, top-k and top-p filters, and batched decoding of
// completions that share prefixes.
package sample

import "math/bits"

// Philox is the counter-based generator Philox4x32-10 (Salmon et al., SC'11). Equal keys and counters give equal words, so
// that draws do not depend on order, batching, threads or restarts.
func Philox(key uint64, counter [4]uint32) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	c := counter
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, c[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k0, l1, h0 ^ c[3] ^ k1, l0}
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c
}

// Uniform is a number in [0, 1) with 53 random bits.
func Uniform(key uint64, counter [4]uint32) float64 {
	r := Philox(key, counter)
	return float64((uint64(r[0])<<32|uint64(r[1]))>>11) / (1 << 53)
}
