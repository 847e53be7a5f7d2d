package windtunnel

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func testTables(t require.TestingT) []Table {
	tables, err := LoadTables(Training)
	require.NoError(t, err)
	return tables
}

func drawScene(t *rapid.T, tables []Table) (Scene, *rand.Rand) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	return Generate(rng, tables), rng
}

// bruteForce answers from definitions, apart from the chains that Solve writes: "" where there is no unique answer.
func bruteForce(s Scene, q Question) string {
	if q.Noun != s.Kind {
		return ""
	}
	var picked []Entity
	for _, r := range q.Refs[:q.Form.refs()] {
		i := slices.IndexFunc(s.Entities, func(e Entity) bool {
			if r.Letter != 0 {
				return e.Letter == r.Letter
			}
			return e.Color == r.Color
		})
		if i < 0 {
			return ""
		}
		picked = append(picked, s.Entities[i])
	}
	total, n := 0, len(s.Entities)
	for _, e := range s.Entities {
		total += e.Value
	}
	mean := float64(total) / float64(n)
	only := func(score func(Entity) float64) string {
		best, names := math.Inf(-1), []string{}
		for _, e := range s.Entities {
			switch v := score(e); {
			case v > best+1e-9:
				best, names = v, []string{e.Name()}
			case v > best-1e-9:
				names = append(names, e.Name())
			}
		}
		if len(names) == 1 {
			return names[0]
		}
		return ""
	}
	countAbove := func(x float64) string {
		c := 0
		for _, e := range s.Entities {
			if float64(e.Value) > x+1e-9 {
				c++
			}
		}
		return strconv.Itoa(c)
	}
	positive := func(x int) string {
		if x <= 0 {
			return ""
		}
		return strconv.Itoa(x)
	}
	// ranked is the name of the only entity with exactly k entities above it and none beside it.
	ranked := func(k int) string {
		for _, e := range s.Entities {
			above, equal := 0, 0
			for _, o := range s.Entities {
				if o.Value > e.Value {
					above++
				}
				if o.Value == e.Value {
					equal++
				}
			}
			if above == k && equal == 1 {
				return e.Name()
			}
		}
		return ""
	}
	switch q.Form {
	case AskValue:
		return strconv.Itoa(picked[0].Value)
	case AskColor:
		return picked[0].Color.String()
	case AskLetter:
		for _, e := range s.Entities {
			if e.Color == q.Color && e.Letter != 0 {
				return string(e.Letter)
			}
		}
		return ""
	case AskCount:
		return strconv.Itoa(n)
	case AskColumn:
		return strconv.Itoa(picked[0].Column)
	case AskSum, AskSum3:
		sum := 0
		for _, e := range picked {
			sum += e.Value
		}
		return strconv.Itoa(sum)
	case AskDifference:
		return positive(picked[0].Value - picked[1].Value)
	case AskTogether:
		return positive(picked[0].Value + picked[1].Value - picked[2].Value)
	case AskLargest:
		return only(func(e Entity) float64 { return float64(e.Value) })
	case AskSmallest:
		return only(func(e Entity) float64 { return -float64(e.Value) })
	case AskCompare:
		i := 0
		if picked[1].Value > picked[0].Value {
			i = 1
		}
		if picked[0].Value == picked[1].Value {
			return ""
		}
		return q.Refs[i].name()
	case AskAbove:
		return countAbove(float64(q.Number))
	case AskLarger:
		return countAbove(float64(picked[0].Value))
	case AskAboveMean:
		return countAbove(mean)
	case AskTotal:
		return strconv.Itoa(total)
	case AskSecond:
		return ranked(1)
	case AskThird:
		return ranked(2)
	}
	var values []float64
	for _, e := range s.Entities {
		values = append(values, float64(e.Value))
	}
	slices.Sort(values)
	if q.Form == AskRange {
		return strconv.FormatFloat(values[n-1]-values[0], 'f', -1, 64)
	}
	return strconv.FormatFloat((values[(n-1)/2]+values[n/2])/2, 'f', -1, 64)
}

func TestSolveAgainstBruteForce(t *testing.T) {
	tables, questions := testTables(t), allQuestions()
	rng := rand.New(rand.NewPCG(1, 2))
	grounded := map[Form]int{}
	for range 40 {
		s := Generate(rng, tables)
		for _, q := range questions {
			if q.Noun != s.Kind && rng.IntN(50) > 0 {
				continue
			}
			truth, want := s.Solve(q), bruteForce(s, q)
			require.Equal(t, want != "", truth.Grounded, "%+v %s: %s", s, q.Text(), truth.Reasoning)
			if want == "" {
				want = NoAnswer
			} else {
				grounded[q.Form]++
			}
			require.Equal(t, want, truth.Answer, "%+v %s: %s", s, q.Text(), truth.Reasoning)
			require.True(t, strings.HasSuffix(truth.Reasoning, "."))
		}
	}
	for form := range forms {
		require.Positive(t, grounded[form], "form %d was never grounded", form)
	}
}

// TestChainsAreTheirOwnText checks that every canonical chain parses back to itself and is graded as explicit.
func TestChainsAreTheirOwnText(t *testing.T) {
	tables, questions := testTables(t), allQuestions()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		s := Generate(rng, tables)
		for _, q := range questions {
			chain, _ := s.chain(q)
			parsed, ok := parseReasoning(join(chain))
			require.True(t, ok, join(chain))
			require.Equal(t, chain, parsed)
			score, justification, ok := s.GradeReasoning(q.Text(), join(chain))
			require.True(t, ok)
			require.Equal(t, ScoreExplicit, score, "%s: %s: %s", q.Text(), join(chain), justification)
			require.True(t, strings.HasSuffix(justification, "explicit."), justification)
		}
	}
}

func TestSolveExamples(t *testing.T) {
	s := Scene{Kind: Bar, Entities: []Entity{{'A', 0, 0, 4}, {'B', 1, 0, 7}, {'C', 2, 0, 2}, {'D', 5, 0, 7}}}
	for _, c := range []struct{ question, reasoning, answer string }{
		{"What is the value of bar A?", "A 4.", "4"},
		{"What is the value of the blue bar?", "blue 7.", "7"},
		{"What colour is bar D?", "D black.", "black"},
		{"Which bar is green?", "green C.", "C"},
		{"How many bars are there?", "count A 1, B 2, C 3, D 4.", "4"},
		{"What is the sum of bar A and bar B?", "A 4. B 7. 4+7=11.", "11"},
		{"How much larger is bar B than bar A?", "B 7. A 4. 7>4. 7-4=3.", "3"},
		{"How much larger is bar A than bar B?", "A 4. B 7. 4<7. Not larger.", NoAnswer},
		{"Which bar has the largest value?", "A 4. B 7, max B 7. C 2, max B 7. D 7, tie 7. No single largest.", NoAnswer},
		{"Which bar has the smallest value?", "A 4. B 7, min A 4. C 2, min C 2. D 7, min C 2.", "C"},
		{"Which is larger, the red bar or bar D?", "red 4. D 7. 4<7.", "D"},
		{"How many bars are above 3?", "A 4>3, 1. B 7>3, 2. C 2<3, 2. D 7>3, 3.", "3"},
		{"What is the range of the bars?", "A 4. B 7, 4 to 7. C 2, 2 to 7. D 7, 2 to 7. 7-2=5.", "5"},
		{"How much larger are bar A and bar B together than bar C?", "A 4. B 7. C 2. 4+7=11. 11>2. 11-2=9.", "9"},
		{"Which bar has the second largest value?", "A 4. B 7. C 2. D 7. order B 7, D 7, A 4, C 2. No single second.", NoAnswer},
		{"Which bar is largest when the top two are left out?", "A 4. B 7. C 2. D 7. order B 7, D 7, A 4, C 2. third A.", "A"},
		{"How many bars are above the mean?", "A 4. B 7, sum 11. C 2, sum 13. D 7, sum 20. 20/4=5. A 4<5, 0. B 7>5, 1. C 2<5, 1. D 7>5, 2.", "2"},
		{"What is the median of the bars?", "A 4. B 7. C 2. D 7. order B 7, D 7, A 4, C 2. middle 7+4=11. 11/2=5.5.", "5.5"},
		{"What is the value of bar F?", "There is no bar F.", NoAnswer},
		{"Which bar is purple?", "There is no purple bar.", NoAnswer},
		{"What is the total of the rows?", "There are no rows.", NoAnswer},
	} {
		q, ok := ParseQuestion(c.question)
		require.True(t, ok, c.question)
		require.Equal(t, Solution{c.reasoning, c.answer, c.answer != NoAnswer}, s.Solve(q), c.question)
	}
}

func TestJudge(t *testing.T) {
	s := Scene{Kind: Scatter, Entities: []Entity{{0, 0, 2, 4}, {0, 1, 3, 7}, {0, 2, 5, 2}}}
	for _, c := range []struct {
		question, answer string
		want             Verdict
	}{
		{"What is the value of the red dot?", "4", Verdict{true, true, true, 1, "4"}},
		{"What is the value of the red dot?", " 4.0 ", Verdict{true, true, true, 1, "4"}},
		{"What is the value of the red dot?", "four", Verdict{true, true, true, 1, "4"}},
		{"What is the value of the red dot?", "4 units", Verdict{true, true, true, 1, "4"}},
		{"What is the value of the red dot?", "5", Verdict{true, true, false, 1, "4"}},
		{"Which dot has the largest value?", "the blue dot", Verdict{true, true, true, 2, "blue"}},
		{"Which dot has the largest value?", "B", Verdict{true, true, false, 2, "blue"}},
		{"Which column is the green dot in?", "5", Verdict{true, true, true, 1, "5"}},
		{"Which dot is red?", "A", Verdict{true, false, false, 1, ""}},
		{"What is the value of bar A?", "none", Verdict{true, false, false, 1, ""}},
		{"How tall is the tower?", "4", Verdict{}},
		{"What is the value of the red dot?", "", Verdict{true, true, false, 1, "4"}},
	} {
		require.Equal(t, c.want, s.Judge(c.question, c.answer), "%s %s", c.question, c.answer)
	}
}
