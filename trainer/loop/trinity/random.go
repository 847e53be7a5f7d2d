package trinity

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
)

// stream is the random stream of one purpose in a step. Streams are independent of each other and of what ran before.
func (r *runner) stream(step int, purpose string, index int) *rand.Rand {
	key := fmt.Sprintf("%d\x00%d\x00%s\x00%d", r.Config.Seed, step, purpose, index)
	return rand.New(rand.NewChaCha8(sha256.Sum256([]byte(key))))
}
