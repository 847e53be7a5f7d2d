package windtunnel

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/trainer/tokenizer"
)

var everything = Mix{Read: 1, Look: 1, Questioner: 1, Solver: 2, Screening: 2, Reasoning: 2, Equivalence: 2, Dispute: 1}

// unfill reads the values of a template's placeholders back from a prompt.
func unfill(template, prompt string) (map[string]string, bool) {
	pattern := regexp.QuoteMeta(template)
	pattern = regexp.MustCompile(`\\\{(\w+)\\\}`).ReplaceAllString(pattern, `(?P<$1>.*?)`)
	re := regexp.MustCompile("^" + pattern + "$")
	m := re.FindStringSubmatch(prompt)
	if m == nil {
		return nil, false
	}
	out := map[string]string{}
	for i, name := range re.SubexpNames() {
		out[name] = m[i]
	}
	return out, true
}

type screenReply struct {
	Justification string  `json:"justification"`
	FactQ         int     `json:"fact_q"`
	CorrA         int     `json:"corr_a"`
	Difficulty    float64 `json:"difficulty"`
}

// checkTurn parses a turn's text as a trainer would, and asks the oracle.
func checkTurn(t require.TestingT, s Scene, turn Turn) {
	switch turn.Role {
	case RoleQuestioner:
		var reply struct{ Question, Answer string }
		require.NoError(t, json.Unmarshal([]byte(turn.Completion), &reply))
		v := s.Judge(reply.Question, reply.Answer)
		require.True(t, v.Parsed && v.Grounded && v.AnswerRight, turn.Completion)
	case RoleSolver:
		f, ok := unfill(PromptSolver, turn.Prompt)
		require.True(t, ok)
		m := regexp.MustCompile(`^<think>(.*)</think><answer>\\boxed\{(.*)\}</answer>$`).FindStringSubmatch(turn.Completion)
		require.NotNil(t, m, turn.Completion)
		require.True(t, s.Judge(f["q"], m[2]).AnswerRight)
		score, _, ok := s.GradeReasoning(f["q"], m[1])
		require.True(t, ok)
		require.Equal(t, ScoreExplicit, score)
	case RoleScreening:
		f, ok := unfill(PromptScreening, turn.Prompt)
		require.True(t, ok)
		var reply screenReply
		require.NoError(t, json.Unmarshal([]byte(turn.Completion), &reply))
		v := s.Judge(f["q"], f["a"])
		require.Equal(t, v.Grounded, reply.FactQ == 1, turn.Prompt)
		require.Equal(t, v.AnswerRight, reply.CorrA == 1, turn.Prompt)
		require.Equal(t, reply.CorrA == 1, strings.HasSuffix(reply.Justification, " yes."))
		if v.Parsed {
			require.InDelta(t, []float64{0, 0.1, 0.4, 0.7, 1}[v.Level], reply.Difficulty, 1e-9)
		}
	case RoleReasoning:
		f, ok := unfill(PromptReasoning, turn.Prompt)
		require.True(t, ok)
		var reply struct {
			Justification string  `json:"justification"`
			Score         float64 `json:"reasoning_score"`
		}
		require.NoError(t, json.Unmarshal([]byte(turn.Completion), &reply))
		score, justification, ok := s.GradeReasoning(f["q"], f["r"])
		require.True(t, ok)
		require.Equal(t, score, reply.Score)
		require.Equal(t, justification, reply.Justification)
		words := strings.Fields(justification)
		last := words[len(words)-1]
		require.Equal(t, score, map[string]float64{"guess.": 0, "misread.": .25, "error.": .25, "shortcut.": .5, "explicit.": 1}[last], justification)
	case RoleDispute:
		f, ok := unfill(PromptDispute, turn.Prompt)
		require.True(t, ok, turn.Prompt)
		_, object, _ := strings.Cut(turn.Completion, "</think>")
		var reply struct {
			CorrectAnswer string `json:"correct_answer"`
			Justification string `json:"justification"`
		}
		require.NoError(t, json.Unmarshal([]byte(object), &reply), turn.Completion)
		winner := map[string]string{"ref": f["ref"], "majority": f["maj"]}[reply.CorrectAnswer]
		require.True(t, s.Judge(f["q"], winner).AnswerRight, turn.Completion)
	case RoleEquivalence:
		require.Contains(t, []string{`{"match": 0}`, `{"match": 1}`}, turn.Completion)
	}
}

func TestTurnsAgreeWithOracle(t *testing.T) {
	tables := testTables(t)
	rapid.Check(t, func(t *rapid.T) {
		s, rng := drawScene(t, tables)
		turns := s.Turns(rng, everything)
		require.Len(t, turns, 12)
		for _, turn := range turns {
			checkTurn(t, s, turn)
		}
	})
}

func TestReadTurnSaysEverything(t *testing.T) {
	s := Scene{Kind: Bar, Entities: []Entity{{'A', 0, 0, 4}, {'B', 1, 0, 7}}}
	require.Equal(t, Turn{RoleRead, "Read.", "A red 4. B blue 7."}, s.ReadTurn())
	s = Scene{Kind: Scatter, Entities: []Entity{{0, 3, 3, 4}, {0, 5, 7, 0}}}
	require.Equal(t, "orange 3 4. black 7 0.", s.ReadTurn().Completion)
}

func TestGradeReasoning(t *testing.T) {
	s := Scene{Kind: Bar, Entities: []Entity{{'A', 0, 0, 4}, {'B', 1, 0, 3}, {'C', 2, 0, 7}}}
	const add, most = "What is the sum of bar A and bar B?", "Which bar has the largest value?"
	for _, c := range []struct {
		question, reasoning string
		score               float64
		justification       string
	}{
		{add, "A 4. B 3. 4+3=7.", 1, "A 4 said 4. B 3 said 3. 4+3=7 said 7. explicit."},
		{add, "A 4. B 3. 3+4=7. 7.", 1, "A 4 said 4. B 3 said 3. 3+4=7 said 7. 7 said 7. explicit."},
		{add, "A 4. B 5. 4+5=9.", .25, "A 4 said 4. B 3 said 5 misread."},
		{add, "A 4. B 3. 4+3=8.", .25, "A 4 said 4. B 3 said 3. 4+3=7 said 8 error."},
		{add, "A 4. C 7. 4+7=11.", .25, "A 4 said 4. C error."},
		{add, "A 4. B 3. 4+7=11.", .25, "A 4 said 4. B 3 said 3. 4+3 said 4+7 error."},
		{add, "A 4. B 3. 4-3=1.", .25, "A 4 said 4. B 3 said 3. 4-3 error."},
		{add, "A 4. B 3. 7.", .5, "A 4 said 4. B 3 said 3. 7 said 7. shortcut."},
		{add, "A 4. B 3. 9.", .25, "A 4 said 4. B 3 said 3. 7 said 9 error."},
		{add, "4+3=7.", .5, "4+3=7 said 7. shortcut."},
		{add, "A 4. B 3.", .5, "A 4 said 4. B 3 said 3. shortcut."},
		{add, "A 4. A 4. B 3. 4+3=7.", .25, "A 4 said 4. A error."},
		{add, "7.", 0, "guess."},
		{add, "", 0, "guess."},
		{add, "There is no bar A.", .25, "refused error."},
		{most, "A 4. B 3, max A 4. C 7, max C 7.", 1, "A 4 said 4. B 3 said 3, max A 4. C 7 said 7, max C 7. explicit."},
		{most, "A 4. B 3, max B 3. C 7, max C 7.", .25, "A 4 said 4. B 3 said 3, max A 4 error."},
		{most, "A 4. B 3. C 7. C.", .5, "A 4 said 4. B 3 said 3. C 7 said 7. C said C. shortcut."},
		{most, "A 4. B 3. C 7. A.", .25, "A 4 said 4. B 3 said 3. C 7 said 7. C said A error."},
		{"What is the value of bar D?", "D 4.", .25, "There is no bar D error."},
		{"What is the value of bar D?", "There is no bar D.", 1, "There is no bar D. explicit."},
		{"How much larger is bar B than bar A?", "B 3. A 4. 4-3=1.", .25, "B 3 said 3. A 4 said 4. Not larger error."},
		{"Which bar is blue?", "blue A.", .25, "blue B said A misread."},
		{"How many bars are there?", "count A 1, B 2.", .25, "count A 1, B 2, C 3 misread."},
		{"What is the median of the bars?", "A 4. B 3. C 7. order C 7, B 3, A 4. middle 3.", .25, "A 4 said 4. B 3 said 3. C 7 said 7. order C 7, A 4, B 3 error."},
		{"How many bars are above 3?", "A 4>3, 1. B 3=3, 1. C 7>3, 2.", 1, "A 4 said 4>3, 1. B 3 said 3=3, 1. C 7 said 7>3, 2. explicit."},
		{"How many bars are above the mean?", "14/3=4.7. A 4<4.7, 0. B 3<4.7, 0. C 7>4.7, 1.", .5,
			"14/3=4.7 said 4.7. A 4 said 4<4.7, 0. B 3 said 3<4.7, 0. C 7 said 7>4.7, 1. shortcut."},
		{"How many bars are above the mean?", "A 4<4.7, 0. B 3<4.7, 0. C 7<4.7, 0.", .25, "A 4 said 4<4.7, 0. B 3 said 3<4.7, 0. C 7 said 7>4.7, 1 error."},
	} {
		score, justification, ok := s.GradeReasoning(c.question, c.reasoning)
		require.True(t, ok, c.reasoning)
		require.Equal(t, c.score, score, "%s: %s", c.reasoning, justification)
		require.Equal(t, c.justification, justification)
	}
	for _, r := range []string{"Let me think.", "A is 4.", "A 4. B 3. so 7.", "A 4.B 3.", strings.Repeat("A 4. ", 1000)} {
		_, _, ok := s.GradeReasoning(add, r)
		require.False(t, ok, r)
	}
	_, _, ok := s.GradeReasoning("Why?", "A 4.")
	require.False(t, ok)
}

// TestGradeTakesAnyChain grades chains of one question as if they answered another: what sampled text may look like.
func TestGradeTakesAnyChain(t *testing.T) {
	tables := testTables(t)
	rapid.Check(t, func(t *rapid.T) {
		s, rng := drawScene(t, tables)
		q := s.DrawQuestion(rng, DefaultWeights(), rng.IntN(4) > 0)
		var parts []string
		for range rng.IntN(3) + 1 {
			other, _ := s.CorruptReasoning(rng, s.DrawQuestion(rng, DefaultWeights(), true))
			if other != "" {
				parts = append(parts, other)
			}
		}
		r := strings.Join(parts, " ")
		score, justification, ok := s.GradeReasoning(q.Text(), r)
		require.True(t, ok, r)
		require.Contains(t, []float64{0, .25, .5, 1}, score)
		require.LessOrEqual(t, len(strings.Fields(justification)), 60, "%s: %s", r, justification)
	})
}

func TestTurnsOfHostileText(t *testing.T) {
	s := Scene{Kind: Bar, Entities: []Entity{{'A', 0, 0, 4}, {'B', 1, 0, 3}, {'C', 2, 0, 7}}}
	for _, answer := range []string{"", `"}`, `\n`, "\x00", "4\n", strings.Repeat("9", 500), "é", "given 4: yes."} {
		for _, question := range []string{"What is the value of bar A?", "", `"}{`, answer} {
			turn := s.ScreenTurn(question, answer)
			var reply screenReply
			require.NoError(t, json.Unmarshal([]byte(turn.Completion), &reply), turn.Completion)
			require.Equal(t, s.Judge(question, answer).AnswerRight, reply.CorrA == 1, "%q", answer)
		}
		_, ok := s.DisputeTurn("What is the value of bar A?", answer, answer, "A 4.")
		require.False(t, ok)
	}
}

func TestClassBalance(t *testing.T) {
	tables := testTables(t)
	rng := rand.New(rand.NewPCG(5, 6))
	var screens, grounded, right, same, equivalents, refWins, disputes float64
	scores, difficulty := map[string]float64{}, map[string]float64{}
	const n = 2000
	for range n {
		s := Generate(rng, tables)
		for _, turn := range s.Turns(rng, everything) {
			switch turn.Role {
			case RoleScreening:
				var reply screenReply
				require.NoError(t, json.Unmarshal([]byte(turn.Completion), &reply))
				screens++
				grounded += float64(reply.FactQ)
				right += float64(reply.CorrA)
				difficulty[fmt.Sprint(reply.Difficulty)]++
			case RoleReasoning:
				_, score, _ := strings.Cut(turn.Completion, `"reasoning_score": `)
				scores[strings.TrimSuffix(score, "}")]++
			case RoleEquivalence:
				equivalents++
				if strings.Contains(turn.Completion, "1") {
					same++
				}
			case RoleDispute:
				disputes++
				if strings.Contains(turn.Completion, `"ref"`) {
					refWins++
				}
			}
		}
	}
	require.InDelta(t, 0.7, grounded/screens, 0.03)
	require.InDelta(t, 0.5, right/grounded, 0.03)
	require.InDelta(t, 0.5, same/equivalents, 0.03)
	require.InDelta(t, 0.5, refWins/disputes, 0.04)
	require.Len(t, scores, 4)
	for score, count := range scores {
		require.InDelta(t, 0.25, count/(2*n), 0.03, score)
	}
	t.Logf("screening: grounded %.3f, right of grounded %.3f, difficulty %v of %v; reasoning %v of %d", grounded/screens, right/grounded, difficulty, screens, scores, 2*n)
}

func TestCorruptReasoningBalance(t *testing.T) {
	tables := testTables(t)
	rng := rand.New(rand.NewPCG(8, 9))
	scores := map[float64]int{}
	for range 4000 {
		s := Generate(rng, tables)
		q := s.DrawQuestion(rng, DefaultWeights(), true)
		r, want := s.CorruptReasoning(rng, q)
		got, _, ok := s.GradeReasoning(q.Text(), r)
		require.True(t, ok)
		require.Equal(t, want, got)
		scores[got]++
	}
	for _, score := range []float64{0, .25, .5, 1} {
		require.Greater(t, scores[score], 750, "%v", scores)
	}
}

func TestWrongAnswersAreWrong(t *testing.T) {
	tables := testTables(t)
	rapid.Check(t, func(t *rapid.T) {
		s, rng := drawScene(t, tables)
		q := s.DrawQuestion(rng, DefaultWeights(), true)
		truth := s.Solve(q).Answer
		wrong := s.WrongAnswer(rng, q, truth)
		require.False(t, s.Judge(q.Text(), wrong).AnswerRight, "%s: %s", q.Text(), wrong)
		require.NotEmpty(t, wrong)
		require.NotContains(t, wrong, "-")
	})
}

// TestTokenLengths trains a tokenizer on the grammar and prints how long the turns are.
func TestTokenLengths(t *testing.T) {
	tables := testTables(t)
	file, err := tokenizer.Train(GrammarText(rand.New(rand.NewPCG(1, 1)), tables, 300), tokenizer.TrainOptions{
		VocabSize: 1024, Pattern: `\p{L}+ ?|\p{N}|[^\s\p{L}\p{N}]+ ?|\s+`, Added: TokenizerAdded()})
	require.NoError(t, err)
	tok, err := tokenizer.Parse(file)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(2, 2))
	prompts, completions, longest := map[string][]int{}, map[string][]int{}, map[string]string{}
	for range 3000 {
		s := Generate(rng, tables)
		for _, turn := range s.Turns(rng, everything) {
			n := len(tok.Encode(turn.Completion))
			if all := completions[turn.Role]; len(all) == 0 || n > slices.Max(all) {
				longest[turn.Role] = turn.Completion
			}
			completions[turn.Role] = append(completions[turn.Role], n)
			prompts[turn.Role] = append(prompts[turn.Role], len(tok.Encode(turn.Prompt)))
		}
	}
	summary := func(x []int) string {
		slices.Sort(x)
		sum := 0
		for _, n := range x {
			sum += n
		}
		return fmt.Sprintf("mean %.1f p50 %d p95 %d max %d", float64(sum)/float64(len(x)), x[len(x)/2], x[len(x)*95/100], x[len(x)-1])
	}
	for _, role := range []string{RoleRead, RoleLook, RoleQuestioner, RoleSolver, RoleScreening, RoleReasoning, RoleEquivalence, RoleDispute} {
		t.Logf("%-12s prompt %s; completion %s: %s", role, summary(prompts[role]), summary(completions[role]), longest[role])
		require.LessOrEqual(t, slices.Max(completions[role]), 160, longest[role])
	}
	t.Logf("vocabulary %d", tok.VocabSize())
}
