package tokenizer

// merges is the table of a byte-level BPE model.
type merges struct {
	first [256]int32        // the token of each byte
	pairs map[uint64]merged // by pairKey
}

type merged struct{ rank, id int32 }

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// encode merges the bytes of a word, always the pair of lowest rank and, among
// equal pairs, the leftmost. Time is O(n log n), so that a long word without a
// break is no weapon.
func (m *merges) encode(word string) []int32 {
	ids := make([]int32, len(word))
	next := make([]int32, len(word))
	prev := make([]int32, len(word))
	for i := range len(word) {
		ids[i] = m.first[word[i]]
		next[i], prev[i] = int32(i+1), int32(i-1)
	}
	n := int32(len(word))
	var queue minHeap // rank and position of pairs, perhaps outdated
	offer := func(left int32) {
		if left < 0 || next[left] >= n {
			return
		}
		if p, ok := m.pairs[pairKey(ids[left], ids[next[left]])]; ok {
			queue.push(uint64(p.rank)<<32 | uint64(left))
		}
	}
	for i := range n {
		offer(i)
	}
	const dead = -1
	for len(queue) > 0 {
		top := queue.pop()
		left := int32(top & 0xffffffff)
		if ids[left] == dead || next[left] >= n {
			continue
		}
		right := next[left]
		p, ok := m.pairs[pairKey(ids[left], ids[right])]
		if !ok || uint64(p.rank) != top>>32 {
			continue
		}
		ids[left], ids[right] = p.id, dead
		next[left] = next[right]
		if next[left] < n {
			prev[next[left]] = left
		}
		offer(prev[left])
		offer(left)
	}
	out := ids[:0]
	for _, id := range ids {
		if id != dead {
			out = append(out, id)
		}
	}
	return out
}

type minHeap []uint64

func (h *minHeap) push(v uint64) {
	s := append(*h, v)
	i := len(s) - 1
	for i > 0 && s[(i-1)/2] > v {
		s[i] = s[(i-1)/2]
		i = (i - 1) / 2
	}
	s[i] = v
	*h = s
}

func (h *minHeap) pop() uint64 {
	s := *h
	top, v := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return top
	}
	i := 0
	for {
		c := 2*i + 1
		if c+1 < len(s) && s[c+1] < s[c] {
			c++
		}
		if c >= len(s) || s[c] >= v {
			break
		}
		s[i] = s[c]
		i = c
	}
	s[i] = v
	return top
}
