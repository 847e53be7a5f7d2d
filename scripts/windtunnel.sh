#!/bin/sh
# windtunnel.sh OUT [WEAK]: measures the shipped checkpoint and runs the experiments of docs/windtunnel.md into the folder
# OUT: three seeds, the Verifier's gate off, and a weak Verifier (the checkpoint in WEAK; made here where it is not given).
# Prints the tables. What is in OUT already is not run again, so an interrupted script goes on where it stopped.
set -eu
out=$1
weak=${2:-$out/weak}
trinity=${TRINITY:-bin/trinity}
model=configs/model/windtunnel
steps=${STEPS:-150}

run() { # run NAME [SETTING...]
	name=$1
	shift
	if [ -f "$out/$name/journal.jsonl" ]; then
		"$trinity" resume "$out/$name"
	else
		args=
		for s in "$@"; do args="$args --set $s"; done
		# shellcheck disable=SC2086 # words are wanted
		"$trinity" train -f windtunnel -o "$out/$name" --set "steps=$steps" $args
	fi
}

held_out() { # held_out NAME: the policy after a run, on figures that nothing trained on
	[ -f "$out/$1.eval.md" ] || "$trinity" eval --run "$out/$1" --figures 500 >"$out/$1.eval.md"
}

mkdir -p "$out"
for verifier in 1 0; do
	[ -f "$out/checkpoint-$verifier.md" ] || "$trinity" eval --model "$model" --figures 500 --verifier "$verifier" >"$out/checkpoint-$verifier.md"
done
[ -f "$weak/model.safetensors" ] || "$trinity" warmup -o "$weak" --examples "${WEAK_EXAMPLES:-26000}"
for seed in 1 2 3; do
	run "seed-$seed" "seed=$seed"
	held_out "seed-$seed"
done
run gate-off verifier.gate=false
held_out gate-off
run weak "verifier.path=$weak" verifier.update=fixed
held_out weak

for table in checkpoint-1 checkpoint-0; do
	printf '\n### %s\n\n' "$table"
	cat "$out/$table.md"
done
printf '\n### three seeds\n\n'
"$trinity" journal windows "$out/seed-1" "$out/seed-2" "$out/seed-3"
for name in gate-off weak; do
	printf '\n### %s\n\n' "$name"
	"$trinity" journal windows "$out/$name"
done
for name in seed-1 seed-2 seed-3 gate-off weak; do
	printf '\n### %s: the policy afterwards, on held-out figures\n\n' "$name"
	cat "$out/$name.eval.md"
done
