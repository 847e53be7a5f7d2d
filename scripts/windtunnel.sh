#!/bin/sh
# windtunnel.sh OUT [WARMUP]: measures the shipped checkpoint and runs the experiments of docs/windtunnel.md into the folder
# OUT: three seeds, a Verifier that never moves, the gate off, a weak Verifier, and an early policy. WARMUP is the folder of a
# warm-up with snapshots after 24,000 (the weak Verifier) and 32,000 (the early policy) of its 64,000 figures. Without it the
# whole warm-up is run first, which takes about an hour on two cores.
# Two runs are at work at a time, each on one thread: threads change no result. Prints the tables. What is in OUT already is
# not run again, so an interrupted script goes on where it stopped.
set -eu
out=$1
warmup=${2:-$out/warmup}
weak=$warmup/snapshot-24000
early=$warmup/snapshot-32000
trinity=${TRINITY:-bin/trinity}
model=configs/model/windtunnel
steps=${STEPS:-150}

run() { # run NAME [SETTING...]
	name=$1
	shift
	if [ -f "$out/$name/journal.jsonl" ]; then
		"$trinity" resume "$out/$name" 2>>"$out/$name.log"
	else
		args=
		for s in "$@"; do args="$args --set $s"; done
		# shellcheck disable=SC2086 # words are wanted
		"$trinity" train -f windtunnel -o "$out/$name" --set "steps=$steps" --set threads=1 $args 2>>"$out/$name.log"
	fi
	# The policy afterwards, on figures that nothing trained on.
	[ -s "$out/$name.eval.md" ] || "$trinity" eval --run "$out/$name" --figures 500 --threads 1 >"$out/$name.eval.md" 2>>"$out/$name.log"
}

run_early() { # run_early SEED
	run "early-$1" "seed=$1" "model.path=$early" "verifier.path=$model" verifier.update=fixed
}

mkdir -p "$out"
for verifier in 1 0; do
	[ -s "$out/checkpoint-$verifier.md" ] || "$trinity" eval --model "$model" --figures 500 --verifier "$verifier" >"$out/checkpoint-$verifier.md"
done
[ -f "$early/model.safetensors" ] || "$trinity" warmup -o "$warmup" --examples 64000 --snapshots 24000,32000
[ -s "$out/checkpoint-weak.md" ] || "$trinity" eval --model "$weak" --figures 500 --verifier 0 >"$out/checkpoint-weak.md"
[ -s "$out/checkpoint-early.md" ] || "$trinity" eval --model "$early" --figures 500 --verifier 1 >"$out/checkpoint-early.md"
(
	run seed-1 seed=1
	run seed-3 seed=3
	run fixed verifier.update=fixed
	run gate-off verifier.gate=false
	run_early 1
) &
other=$!
run seed-2 seed=2
for seed in 1 2 3; do
	run "weak-$seed" "seed=$seed" "verifier.path=$weak" verifier.update=fixed
done
run_early 2
run_early 3
wait "$other"

for table in checkpoint-1 checkpoint-0 checkpoint-weak checkpoint-early; do
	printf '\n### %s\n\n' "$table"
	cat "$out/$table.md"
done
for name in seed weak early; do
	printf '\n### %s: three seeds\n\n' "$name"
	"$trinity" journal windows "$out/$name-1" "$out/$name-2" "$out/$name-3"
done
for name in fixed gate-off; do
	printf '\n### %s\n\n' "$name"
	"$trinity" journal windows "$out/$name"
done
for name in seed-1 seed-2 seed-3 fixed gate-off weak-1 weak-2 weak-3 early-1 early-2 early-3; do
	printf '\n### %s: the policy afterwards, on held-out figures\n\n' "$name"
	cat "$out/$name.eval.md"
done
