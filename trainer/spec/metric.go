package spec

// Metric names of a step, the same in the journal, the database, charts and exports.
const (
	MetricRFact    = "reward/r_fact/mean"
	MetricRDiff    = "reward/r_diff/mean"
	MetricRCorrect = "reward/r_correct/mean"
	MetricRReason  = "reward/r_reason/mean"
	MetricRChal    = "reward/r_chal/mean" // all-candidate mean, as plotted in Figure 2

	MetricRChalSelected = "reward/r_chal/selected_mean"
	MetricRQ            = "reward/r_q/mean"
	MetricRS            = "reward/r_s/mean"
	MetricSelectRate    = "select/rate" // selected candidates over all candidates: p_sel

	MetricFormatQuestioner = "format/questioner"
	MetricFormatSolver     = "format/solver"

	MetricDisputeRate       = "dispute/rate"       // disputes over images with a selected question
	MetricDisputeOverturned = "dispute/overturned" // overturned over disputes
	MetricDisputeFallback   = "dispute/fallback"   // fallbacks over disputes
	MetricVerifierParseFail = "verifier/parse_fail"
	MetricVerifierDrift     = "verifier/drift" // the Verifier's distance from the first weights over the policy's, after the average

	MetricLoss            = "loss/total"
	MetricLossPolicy      = "loss/policy"
	MetricLossRegulariser = "loss/regulariser"

	MetricClipFraction = "policy/clip_fraction"
	MetricRatioMean    = "policy/ratio_mean"
	MetricKL           = "policy/kl"
	MetricGradNorm     = "policy/grad_norm"
	MetricMismatch     = "policy/mismatch" // mean |sampler - trainer| log-prob a token, nats: over what an update trains on, or the first image's candidates in a step without one
	MetricRetainedQ    = "policy/retained_q"
	MetricRetainedS    = "policy/retained_s"
	MetricLearningRate = "policy/learning_rate"

	MetricSecondsPrefix         = "perf/seconds/"           // + phase; wall clock, not part of the digest
	MetricTokensPerSecondPrefix = "perf/tokens_per_second/" // + phase; wall clock, not part of the digest

	MetricOracleFactFPR        = "oracle/fact_q/fpr"
	MetricOracleFactFNR        = "oracle/fact_q/fnr"
	MetricOracleCorrFPR        = "oracle/corr_a/fpr"
	MetricOracleCorrFNR        = "oracle/corr_a/fnr"
	MetricOracleSolverAccuracy = "oracle/solver_accuracy"
	MetricOracleGrounded       = "oracle/grounded"        // share of format-valid candidates whose premises hold
	MetricOracleReferenceRight = "oracle/reference_right" // share of format-valid candidates grounded with a right answer
)

// Figure2 lists the five curves of the paper's Figure 2, in its order.
var Figure2 = [...]string{MetricRFact, MetricRDiff, MetricRCorrect, MetricRReason, MetricRChal}
