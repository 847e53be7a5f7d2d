package httpd

import (
	"strconv"

	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/web/view"
)

// costOf counts what one step of a configuration makes.
func costOf(c spec.Config) []view.Cost {
	images := c.Corpus.ImagesPerStep
	candidates, rollouts := images*c.Questioner.Samples, images*c.Solver.Samples
	costs := []view.Cost{
		{Count: strconv.Itoa(images), Text: "images"},
		{Count: strconv.Itoa(candidates), Text: "candidates"},
	}
	if c.Verifier.Gate {
		costs = append(costs, view.Cost{Count: "≤ " + strconv.Itoa(candidates), Text: "screenings by the Verifier"})
	} else {
		costs = append(costs, view.Cost{Count: "0", Text: "screenings, since the gate is off"})
	}
	return append(costs,
		view.Cost{Count: "≤ " + strconv.Itoa(rollouts), Text: "rollouts, each evaluated"},
		view.Cost{Count: strconv.Itoa(c.Optimizer.Epochs * max(c.Optimizer.MiniBatches, 1)), Text: "optimiser updates"},
		view.Cost{Count: strconv.Itoa(c.Steps), Text: "such steps in all"},
	)
}
