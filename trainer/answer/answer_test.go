package answer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMatchByRule(t *testing.T) {
	for _, pair := range [][2]string{
		// LaTeX
		{`\frac{1}{2}`, "1/2"}, {`\dfrac12`, "0.5"}, {`$\frac{1}{2}$`, ".5"}, {`\boxed{5}`, "5"}, {`\text{Paris}`, "paris"},
		{`\left( \frac{1}{2} \right)`, "1/2"}, {`\sqrt{2}`, "√2"}, {`2\sqrt{3}`, `2 \sqrt 3`}, {`\sqrt{16}`, "4"}, {`\sqrt[3]{x}`, `(x)^(1/3)`},
		{`\frac{\sqrt{2}}{2}`, `\sqrt{2}/2`}, {`2+\sqrt{3}`, `\sqrt{3} + 2`}, {`x^{2}`, "x^2"}, {`x^2 + 1`, "x^2+1"}, {`\(5\)`, "5"}, {`\[5\]`, "5"},
		{`\pi`, "π"}, {`\frac{2\pi}{3}`, "2π/3"}, {`\{1, 2\}`, "{1,2}"}, {`H_2O`, "H2O"}, {`CO_{2}`, "CO₂"}, {`{}^{87}\text{Sr}`, "87Sr"}, {`^{87}\text{Sr}`, "87Sr"},
		{`\sin\alpha`, `\sin \alpha`}, {`\mathrm{A}`, "A"}, {`6 \mathrm{~cm}`, "6cm"}, {`1{,}000`, "1000"}, {`1\,000`, "1000"},
		// units
		{"6cm", "6"}, {"6", "6 cm"}, {"30 ft", "30"}, {"50 Hz", "50"}, {"6 cm", "6 centimeters"}, {"6 cm", "60 mm"}, {"100 cm", "1 m"},
		{"60 km/h", "60"}, {"5 m^2", "5 square meters"}, {"5 m²", "5m^2"}, {"9.8 m/s^2", "9.8 m/s²"}, {"$5", "5"}, {"$5", "5 dollars"}, {"-$5", "-5"},
		{"25 °C", "25 degrees Celsius"}, {"3 hours", "180 min"}, {"5 kg", "5000 g"}, {"2.5 µm", `2.5 \mu m`}, {"5 V", "5V"},
		// degrees
		{`90^\circ`, "90"}, {`90^{\circ}`, "90°"}, {"90 degrees", "90°"}, {"180°", `\pi rad`},
		// ratios
		{"3:2", "3/2"}, {"3:2", "1.5"}, {"6:4", "3:2"}, {"3 : 2", "3:2"}, {"6:4:2", "3:2:1"}, {"1/2", "1:2"}, {"02:30", "02:30"},
		// percentages
		{"50%", "50"}, {"50%", "0.5"}, {"0.5", `50\%`}, {"50 percent", "50%"}, {"12.5%", "1/8"},
		// fractions and mixed numbers
		{"1/4", "0.25"}, {"2/4", "1/2"}, {"24/2", "12"}, {"12.5", "25/2"}, {`7\frac{3}{4}`, "31/4"}, {"7 3/4", "7.75"}, {"-7 3/4", "-31/4"}, {"7½", "7.5"},
		{"half", "1/2"}, {"one half", "0.5"}, {"three quarters", "75%"}, {"seven", "7"}, {"twenty-one", "21"}, {"Three meters", "3 m"},
		// separators, signs and powers
		{"1,000", "1000"}, {"1,234,567.50", "1234567.5"}, {"12 000", "12000"}, {"−5", "-5"}, {"+5", "5"}, {"５", "5"}, {"5.0", "5"}, {"007", "7"},
		{"5.7*10^4", "57000"}, {`5.7 \times 10^{4}`, "5.7e4"}, {"5.7 x 10^4", "57,000"}, {"10⁻³", "0.001"}, {"2^10", "1024"}, {"5 million", "5,000,000"},
		{"x = 5", "5"}, {"about 5", "5"}, {"≈ 3.14", "3.14"}, {`x \approx 5`, "5"}, {"(4+4)/2", "4"},
		// text
		{"A.", "a"}, {"(B)", "b"}, {"C)", "C"}, {"The red bar", "red bar"}, {"a Red Bar.", "red bar"}, {"in the middle", "in middle"},
		{"right-angled", "right angled"}, {`"yes"`, "Yes!"}, {"a = b", "a=b"}, {"A and B", "a and b"}, {"**none**", "none"}, {"F, 1", "f,1"}, {"5!", "5!"},
	} {
		for _, p := range [][2]string{pair, {pair[1], pair[0]}} {
			got := Match(p[0], p[1])
			if got.Verdict != VerdictMatch || got.Tier != TierRule {
				t.Errorf("%s: "+"%q and %q: %q and %q", got.Verdict, p[0], p[1], got.NormalizedRef, got.NormalizedPred)
			}
		}
	}
}

func TestMismatchByGuard(t *testing.T) {
	for _, pair := range [][2]string{
		{"100", "102"}, {"6", "8"}, {"-5", "5"}, {"0", "5"}, {"5", "0"}, {"1/2", "1/3"}, {"6 cm", "8"}, {"6 cm", "8 cm"}, {"3:2", "2:3"},
		{"2:30", "2:45"}, {"1,000", "100"}, {"5 nm", "900 pm"}, {"30°", "45°"}, {`\sqrt{2}`, "2"}, {"50%", "0.6"}, {"50%", "20%"}, {"50", "0.5"}, {"x = 5", "y = 6"},
		{"50", "5000"}, {"seven", "8"}, {"1e60", "1e-60"}, {"0.000001", "0.0000021"},
	} {
		got := Match(pair[0], pair[1])
		if got.Verdict != VerdictMismatch || got.Tier != TierGuard {
			t.Errorf("%s: "+"%q and %q: %q and %q", got.Verdict, pair[0], pair[1], got.NormalizedRef, got.NormalizedPred)
		}
	}
}

func TestUndecidedGoesToTheVerifier(t *testing.T) {
	for _, pair := range [][2]string{
		{"repulsion", "repulsive"}, {"none", "0"}, {"equal", "a = b"}, {"a^2-16", "(a+4)(a-4)"}, {"Right Trapezoid", "trapezoid"}, {"F, 1", "1"},
		{"king", "queen"}, {"A", "B"}, {"A'", "A"}, {"", ""}, {"", "5"}, {"...", "!"}, {"3 bars", "3"}, {"3B", "3"}, {"Group 5A", "5"},
		{"6 cm", "6 s"}, {"$6", "€6"}, {"6 units", "6 cm"}, {"50%", "50 cm"}, {"5.2 million", "5.2"}, {"180°", `\pi`}, {"x = 5", "y = 5"},
		{"1:20", "2:40"}, {"3-5", "-2"}, {"(3-5)", "(4-6)"}, {"5!", "5"}, {"1,5", "1.5"}, {"0,125", "125"}, {"1/0", "1/0.0"}, {"1/2/2020", "2/4/2020"}, {"(1,200)", "1200"},
		{"10^999999999", "5"}, {"9^9^9", "5"}, {"5 MW", "5 mW x"}, {"1-1/e", "1+1/e"}, {"vitamin A deficiency", "vitamin deficiency"},
	} {
		got := Match(pair[0], pair[1])
		if got.Verdict != VerdictUndecided || got.Tier != TierNone {
			t.Errorf("%s: "+"%q and %q: %q and %q", got.Verdict, pair[0], pair[1], got.NormalizedRef, got.NormalizedPred)
		}
	}
}

func TestTrap07GuardOnlyRejects(t *testing.T) {
	tests := []struct {
		ref, pred string
		want      Verdict
	}{
		{"100", "102", VerdictMismatch},
		{"6", "8", VerdictMismatch},
		{"-5", "5", VerdictMismatch},
		{"100", "100.9", VerdictUndecided}, // unequal within 1%: the Verifier decides
		{"3.14159", "3.14", VerdictUndecided},
		{"3.14", `\pi`, VerdictUndecided},
		{"1/3", "0.333", VerdictUndecided},
		{"57000", "5.70007*10^4", VerdictUndecided},
		{"100", "101", VerdictUndecided}, // 1% exactly is not outside
		{"100", "101.0001", VerdictMismatch},
		{"101.0001", "100", VerdictUndecided}, // relative to the reference
		{"0", "0.000001", VerdictUndecided},   // the floor
		{"0", "0.0000011", VerdictMismatch},
		{"50%", "0.5", VerdictMatch}, // percent-equivalent pairs are exempt
		{"0.5", "50%", VerdictMatch},
		{"50%", "0.502", VerdictUndecided},
		{"50", "0.5", VerdictMismatch}, // without a sign they are not
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, Match(tt.ref, tt.pred).Verdict, "%s and %s", tt.ref, tt.pred)
	}
}

func TestNormalise(t *testing.T) {
	for s, want := range map[string]string{
		`\frac{1}{2}`: "0.5", "1/3": "1/3", "6 centimeters": "6 cm", `50\%`: "50%", "90^\\circ": "90 °", "The Red Bar.": "red bar", "1,000": "1000",
		"9.8 m/s²": "9.8 m/s^2", "$5": "5 $", "2:30": "2:30", "3:2": "1.5", `2\sqrt{3}`: "2sqrt(3)", "": "", "x = 5": "5",
	} {
		require.Equal(t, want, Normalise(s), "%q", s)
		require.Equal(t, Normalise(s), Normalise(Normalise(s)), "%q twice", s)
	}
}

func TestKeyCountsEqualAnswersAsOneVote(t *testing.T) {
	for _, same := range [][]string{
		{"6", "6 cm", `\boxed{6}`, "6.0", "x = 6", "six", "12/2"}, {"A", "a.", "(A)"}, {"50%", "50 percent"}, {`\sqrt{2}`, "√2"}, {"the red bar", "Red bar"},
	} {
		for _, s := range same {
			require.Equal(t, Key(same[0]), Key(s), "%q", s)
		}
	}
	for _, pair := range [][2]string{{"6", "7"}, {"A", "B"}, {"50%", "0.5"}, {"1:20", "2:40"}, {"-6", "6"}, {"1.41421356", `\sqrt{2}`}} {
		require.NotEqual(t, Key(pair[0]), Key(pair[1]), "%q", pair)
	}
}

func TestLongAndDeepAnswersAreCheap(t *testing.T) {
	for _, unit := range []string{"(", "{", `\frac{`, `\sqrt`, "1+", "9^", "1/", "1,000", "$", "9", `\text{`, "-", "a ", "1:", "^", "'", `\left(`} {
		for _, n := range []int{300, 1000, 1 << 16} {
			s := strings.Repeat(unit, n/len(unit))
			require.NotEqual(t, VerdictMismatch, Match(s, s+"x").Verdict, "%.20q", s)
		}
	}
}

// written draws a number and one of its spellings.
func written(t *rapid.T, label string) (float64, string) {
	n := rapid.IntRange(-100000, 100000).Draw(t, label)
	scale := rapid.SampledFrom([]int{1, 10, 100, 1000}).Draw(t, label+" scale")
	x := float64(n) / float64(scale)
	plain := strconv.FormatFloat(x, 'f', -1, 64)
	switch rapid.IntRange(0, 5).Draw(t, label+" form") {
	case 0:
		return x, fmt.Sprintf("%d/%d", n, scale)
	case 1:
		return x, fmt.Sprintf(`\frac{%d}{%d}`, n, scale)
	case 2:
		return x, "$" + plain + "$"
	case 3:
		return x, fmt.Sprintf("%de-%d", n, len(strconv.Itoa(scale))-1)
	case 4:
		return x, plain + rapid.SampledFrom([]string{" cm", "°", " kg"}).Draw(t, label+" unit")
	}
	return x, plain
}

func TestNumbersFurtherApartThanOnePercentNeverMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, ref := written(t, "ref")
		b, pred := written(t, "pred")
		if rapid.Bool().Draw(t, "close") {
			b = a * rapid.Float64Range(.97, 1.03).Draw(t, "factor")
			pred = strconv.FormatFloat(b, 'f', -1, 64)
		}
		got := Match(ref, pred).Verdict
		if got == VerdictMatch && math.Abs(a-b) > .01*math.Abs(a) {
			t.Fatalf("%q matches %q", ref, pred)
		}
		units := strings.ContainsAny(ref, "°ck") && strings.ContainsAny(pred, "°ck")
		if a == b && !units && got != VerdictMatch {
			t.Fatalf("%q and %q are equal: %s", ref, pred, got)
		}
		if math.Abs(a-b) > max(.0101*math.Abs(a), 1e-5) && !units && got != VerdictMismatch {
			t.Fatalf("%q and %q are clean and far apart: %s", ref, pred, got)
		}
	})
}

func TestMatchIsReflexiveAndSymmetric(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"1", "2", "3/4", "50%", "cm", " ", "-", "+", "(", ")", "A", "the ", `\frac`, "{", "}", "^", "_", `\sqrt`, "π", ":", ",", ".", "x", "=", "°", "million", "half", "$", "*", "/", `\text{`, "é"})
	rapid.Check(t, func(t *rapid.T) {
		a := strings.Join(rapid.SliceOfN(pieces, 0, 8).Draw(t, "a"), "")
		b := strings.Join(rapid.SliceOfN(pieces, 0, 8).Draw(t, "b"), "")
		if self := Match(a, a); self.Verdict == VerdictMismatch || self.Verdict == VerdictUndecided && self.NormalizedRef != "" {
			t.Fatalf("%q against itself: %s", a, self.Verdict)
		}
		ab, ba := Match(a, b), Match(b, a)
		if (ab.Verdict == VerdictMatch) != (ba.Verdict == VerdictMatch) {
			t.Fatalf("%q and %q: %s one way, %s the other", a, b, ab.Verdict, ba.Verdict)
		}
		if ab.NormalizedRef != ba.NormalizedPred || ab.NormalizedPred != ba.NormalizedRef {
			t.Fatalf("%q and %q are normalised differently by side", a, b)
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{`\frac{1}{2}`, "7 3/4 cm", "50%", "1,000", `2\sqrt[3]{x}`, "3:2:1", "$5", "x = 10^{-3}", "(A)", "9^(9/0)", `\boxed{\text{a}}`, "½ m²"} {
		f.Add(s, "1/2")
		f.Add("5", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ab, ba := Match(a, b), Match(b, a)
		if (ab.Verdict == VerdictMatch) != (ba.Verdict == VerdictMatch) {
			t.Fatalf("%q and %q: %s one way, %s the other", a, b, ab.Verdict, ba.Verdict)
		}
		if self := Match(a, a); self.Verdict == VerdictMismatch {
			t.Fatalf("%q does not match itself", a)
		}
		if x, err := strconv.ParseFloat(a, 64); err == nil && plainDecimal(a) && plainDecimal(b) {
			if y, err := strconv.ParseFloat(b, 64); err == nil && math.Abs(x-y) > .0101*math.Abs(x)+1e-5 && ab.Verdict == VerdictMatch {
				t.Fatalf("%q matches %q", a, b)
			}
		}
		_ = Key(a)
	})
}

func plainDecimal(s string) bool { return s != "" && strings.Trim(s, "0123456789.-") == "" }
