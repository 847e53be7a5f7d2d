package qwenvl

import "github.com/trinity-lab/trinity/trainer/nn"

// Batch is a flat list of rows (token positions) from several sequences, with who attends to whom.
type Batch struct {
	Tokens    []int32    // token ids; at image rows the image token's id
	Positions [][3]int32 // M-RoPE positions: time, height, width
	Groups    []nn.Group
	Images    []ImageRows
	// Targets: at row TargetRow[i] the model predicts TargetToken[i].
	TargetRow, TargetToken []int32
}

// ImageRows places an image's features on consecutive rows of the batch.
type ImageRows struct {
	Start    int
	Features Features
}

// Rows is the number of rows.
func (b *Batch) Rows() int { return len(b.Tokens) }

// AddPrefix appends prompt tokens up to and including the image, if any, as a causal sequence of its own. Runs of the image
// token stand for images, in order; they get grid positions. It returns the rows and the position that follows them.
func (b *Batch) AddPrefix(c *Config, tokens []int32, images []Features) (rows nn.Segment, next int32) {
	rows = nn.Segment{Start: b.Rows(), Len: len(tokens)}
	b.Groups = append(b.Groups, nn.Group{Segments: []nn.Segment{rows}})
	for i := 0; i < len(tokens); {
		if tokens[i] != c.ImageTokenID || len(images) == 0 {
			b.add(tokens[i], [3]int32{next, next, next})
			next++
			i++
			continue
		}
		f := images[0]
		images = images[1:]
		b.Images = append(b.Images, ImageRows{b.Rows(), f})
		for k := range f.GridH * f.GridW {
			b.add(tokens[i+k], [3]int32{next, next + int32(k/f.GridW), next + int32(k%f.GridW)})
		}
		next += int32(max(f.GridH, f.GridW))
		i += f.GridH * f.GridW
	}
	return rows, next
}

// StartGroup begins a group of continuations of prefix, which may be empty.
func (b *Batch) StartGroup(prefix nn.Segment) {
	b.Groups = append(b.Groups, nn.Group{Prefix: prefix})
}

// AddContinuation appends a segment to the last group, its tokens at positions next, next+1, ... The last targets tokens
// are prediction targets, each predicted at the row before it; the first token of a continuation never is one.
func (b *Batch) AddContinuation(next int32, tokens []int32, targets int) nn.Segment {
	seg := nn.Segment{Start: b.Rows(), Len: len(tokens)}
	g := &b.Groups[len(b.Groups)-1]
	g.Segments = append(g.Segments, seg)
	for i, t := range tokens {
		p := next + int32(i)
		b.add(t, [3]int32{p, p, p})
	}
	for i := max(1, len(tokens)-targets); i < len(tokens); i++ {
		b.TargetRow = append(b.TargetRow, int32(seg.Start+i-1))
		b.TargetToken = append(b.TargetToken, tokens[i])
	}
	return seg
}

func (b *Batch) add(token int32, position [3]int32) {
	b.Tokens = append(b.Tokens, token)
	b.Positions = append(b.Positions, position)
}
