package config

import "strings"

// choices lists the allowed values of a setting, or nil where they are not a list.
func choices(key string) []string {
	switch key {
	case "loop":
		return []string{"trinity"}
	case "prompts":
		return []string{"windtunnel", "trinity"}
	case "model.train":
		return []string{"full", "lora"}
	case "questioner.thinking":
		return []string{"none", "optional", "required", "prefix"}
	case "solver.thinking":
		return []string{"required", "prefix"}
	case "verifier.update":
		return []string{"ema", "fixed", "endpoint"}
	}
	return nil
}

// help explains a setting in a line. The settings of sampling are the same for every role.
func help(key string) string {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		if s := samplingHelp[key[i+1:]]; s != "" {
			return s
		}
	}
	return settingHelp[key]
}

var samplingHelp = map[string]string{
	"temperature": "Sampling temperature. 0 always takes the likeliest token; 1 samples the model as it is.",
	"top_p":       "Keep the likeliest tokens up to this share of probability. 1 keeps all.",
	"top_k":       "Keep this many of the likeliest tokens. 0 keeps all.",
	"max_tokens":  "Longest completion, tokens. A longer one is cut off and counts as malformed.",
}

var settingHelp = map[string]string{
	"name":                     "Shown in lists and exports.",
	"loop":                     "Training algorithm.",
	"seed":                     "Every random choice follows from it: equal seeds give equal runs on the CPU.",
	"steps":                    "Outer steps. The paper runs 300 with 8B and 500 with 7B.",
	"model.path":               "Checkpoint folder in Hugging Face layout, or builtin:windtunnel.",
	"model.train":              "Train low-rank adapters (lora) or all weights (full).",
	"model.freeze_vision":      "Keep the vision encoder and merger as they are, as the paper does.",
	"model.lora.rank":          "Rank of the adapters on the seven decoder projections. The paper takes 32.",
	"model.lora.alpha":         "The adapters' output is scaled by alpha/rank.",
	"model.min_pixels":         "Smallest image area after resizing, pixels. 0 keeps the checkpoint's.",
	"model.max_pixels":         "Largest image area after resizing, pixels. 0 keeps the checkpoint's. More pixels cost more memory and time.",
	"model.decode_batch":       "Completions that each thread decodes together; fewer hold less memory for keys and values. 0 takes 256. Does not change results.",
	"corpus.path":              "Folder of PNG, JPEG, WebP or GIF images, or builtin:windtunnel. Only pixels are read.",
	"corpus.size":              "Figures drawn for builtin:windtunnel. Ignored for a folder.",
	"corpus.images_per_step":   "Images in a step. The paper takes 16 with 8B and 32 with 7B.",
	"prompts":                  "Prompt set: short ones for the wind-tunnel model, full ones for real models.",
	"questioner.samples":       "G: candidate questions for each image.",
	"questioner.thinking":      "Whether a candidate may or must think before its JSON. prefix: the chat template opens the thinking.",
	"solver.samples":           "K: answers to each selected question.",
	"solver.thinking":          "Thinking is required of the Solver. prefix: the chat template opens it.",
	"verifier.path":            "Other weights that judge: a checkpoint folder. With ema it starts there and has the policy's architecture. Empty: the policy's own.",
	"verifier.update":          "Who judges: ema follows the policy slowly, fixed never moves, endpoint is a model on an OpenAI-compatible server.",
	"verifier.ema_decay":       "Share of its own weights the Verifier keeps each step. The paper takes 0.999.",
	"verifier.ema_bf16":        "Store the moving average in bfloat16 rather than float32. Slow averages then hardly move: shown, not recommended.",
	"verifier.gate":            "Screen questions before they become supervision. Off takes every well-formed candidate as grounded and right: an ablation.",
	"verifier.retries":         "Further tries where a verdict cannot be parsed. The paper makes none.",
	"dispute.enabled":          "Let the Verifier decide when most Solvers agree against the reference answer.",
	"dispute.threshold":        "Share of formatted answers that must agree, rounded up.",
	"dispute.minimum_n":        "Formatted answers needed for a dispute.",
	"dispute.retries":          "Further tries where a verdict cannot be parsed; after them the majority wins.",
	"reward.alpha_q":           "Weight of the discounted difficulty in the Questioner's reward (Eq. 1).",
	"reward.beta_q":            "Weight of the challenge in the Questioner's reward (Eq. 1).",
	"reward.rho_f":             "Penalty of a malformed candidate (Eq. 1).",
	"reward.w_c":               "Weight of correctness in the Solver's reward (Eq. 2).",
	"reward.w_r":               "Weight of reasoning, counted on correct answers alone (Eq. 2).",
	"reward.w_f":               "Weight of the format (Eq. 2).",
	"optimizer.learning_rate":  "Peak learning rate of AdamW.",
	"optimizer.weight_decay":   "Decoupled weight decay of AdamW.",
	"optimizer.beta1":          "Decay of AdamW's first moment.",
	"optimizer.beta2":          "Decay of AdamW's second moment.",
	"optimizer.epsilon":        "AdamW's epsilon.",
	"optimizer.warmup_steps":   "Steps over which the learning rate rises from 0.",
	"optimizer.minimum_factor": "Share of the peak at which the cosine schedule ends.",
	"optimizer.gradient_clip":  "Largest global gradient norm. 0 switches clipping off.",
	"optimizer.epochs":         "Passes over a step's retained rollouts. The paper makes one.",
	"optimizer.mini_batches":   "Optimiser updates a pass. Ratio clipping acts from the second update on.",
	"optimizer.alternate":      "Steps that the Questioner alone is updated, then the Solver alone, and so on. 0 updates both at once, as the paper does.",
	"gspo.clip_low":            "How far the sequence ratio may fall below 1 (Eq. 3).",
	"gspo.clip_high":           "How far the sequence ratio may rise above 1 (Eq. 3).",
	"gspo.regulariser":         "Weight of the pull towards the policy that sampled (Eq. 3).",
	"checkpoint.every":         "Steps between checkpoints. The last step always saves.",
	"checkpoint.keep":          "Newest checkpoints kept.",
	"threads":                  "CPU threads. 0 takes all cores. Does not change results.",

	"verifier.endpoint.url":             "With update endpoint: base address of the server, such as http://127.0.0.1:8000/v1.",
	"verifier.endpoint.model":           "With update endpoint: the model, by the server's name for it.",
	"verifier.endpoint.key_env":         "Environment variable of the trainer that holds the server's key; its name ends in _API_KEY. Empty sends none.",
	"verifier.endpoint.concurrency":     "Calls at once. 0 takes 8.",
	"verifier.endpoint.timeout":         "Longest whole call, seconds. 0 takes 300.",
	"verifier.endpoint.connect_timeout": "Longest wait for a connection, seconds. 0 takes 10.",
	"verifier.endpoint.attempts":        "Tries of a call that fails for the moment, the first included. 0 takes 10, about two minutes. Then the run stops and can be resumed.",

	"model.gradient_checkpointing": "Keep only the layers' inputs for the backward pass and compute the rest again: less memory for a longer training step. Does not change results.",
}
