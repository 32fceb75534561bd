package launch

import (
	"strings"
	"testing"
)

func TestNameOf(t *testing.T) {
	for command, want := range map[string]string{
		"":                                      "",
		"/bin/true":                             "true",
		"python3.12 -u src/train.py --epochs 3": "train.py",
		"/opt/venv/bin/python -m demo.train x":  "demo.train",
		"python -W ignore t.py":                 "t.py",
		"python -W ignore t":                    "t",
		"python -Wignore -X dev -B t.py":        "t.py",
		"python -u train --config conf.py":      "train",
		"python -":                              "python",
		"bash":                                  "bash",
		"bash -e ./run.sh":                      "run.sh",
		"bash -o pipefail run":                  "run",
		"bash -m run":                           "run",
		"bash run data.py":                      "run",
		"sh launch":                             "launch",
		"env":                                   "env",
		"env A=b python":                        "python",
		"env A=b python serve.py":               "serve.py",
		"env -u FOO python t.py":                "t.py",
		"env A=1 B=2 C=3 D=4 E=5 python train.py":                           "train.py",
		"nohup nice -n 5 python train.py":                                   "train.py",
		"torchrun --nproc-per-node=2 fit.py":                                "fit.py",
		"torchrun --nproc_per_node 2 train.py --lr 3":                       "train.py",
		"torchrun --standalone --nnodes 1 -m demo.fit":                      "demo.fit",
		"torchrun --standalone fit.py":                                      "fit.py",
		"torchrun --log_dir /tmp/logs --rdzv_endpoint host:29400 fit.py":    "fit.py",
		"accelerate launch --num_processes 4 --config_file c.yaml train.py": "train.py",
		"uv run app.py":                     "app.py",
		"uv run --with numpy python app.py": "app.py",
		"conda run -n ml python app.py":     "app.py",
		"julia --project=. -t 4 fit.jl":     "fit.jl",
		"julia julia1.jl":                   "julia1.jl",
		"pythonic x.py":                     "pythonic",

		"timeout 5 sh job.sh":                                       "job.sh",
		"timeout -k 10 --signal INT 2h python train.py":             "train.py",
		"timeout -s9 5 ./solver -m mesh":                            "solver",
		"time -v python train.py":                                   "train.py",
		"/usr/bin/time -o log -f %e sh job.sh":                      "job.sh",
		"taskset -c 0-3 python train.py":                            "train.py",
		"taskset 0xf ./solver":                                      "solver",
		"numactl --cpunodebind=0 --membind 0 python train.py":       "train.py",
		"numactl -N 0 -m 0 -l ./solver":                             "solver",
		"stdbuf -oL -e 0 python train.py":                           "train.py",
		"nice -5 python train.py":                                   "train.py",
		"nice --adjustment=5 ./solver":                              "solver",
		"ionice -c 2 -n7 python train.py":                           "train.py",
		"setsid -f python train.py":                                 "train.py",
		"chrt -f 50 ./solver":                                       "solver",
		"setsid nohup timeout 5 env A=b nice -n 3 python3 train.py": "train.py",
		"mpirun -np 4 -x PATH python train.py":                      "train.py",
		"timeout 5":                                                 "timeout",

		"python -m torch.distributed.run --nproc_per_node 2 train.py --lr 3": "train.py",
		"python -m torch.distributed.launch --nnodes=1 src/fit.py":           "fit.py",
		"python -m torch.distributed.run -m demo.fit":                        "demo.fit",
		"python -m torch.distributed.run":                                    "torch.distributed.run",
		"python -um demo.train":                                              "demo.train",
		"python -mdemo.train":                                                "demo.train",
		"python exp/lr=0.1/train.py":                                         "train.py",
		"./exp/lr=0.1/run":                                                   "run",
		"python -u -- train.py":                                              "train.py",
		"python - train.py":                                                  "python",
		"bash -euo pipefail run":                                             "run",
		"uv run --frozen mytool":                                             "mytool",
		"uv run --frozen --extra gpu mytool --fast":                          "mytool",
		"uv run --project=. -p 3.12 -m demo.train":                           "demo.train",
		"uv run -- mytool":                                                   "mytool",
		"uv --directory sub run mytool":                                      "mytool",
		"conda run -n ml --no-capture-output mytool":                         "mytool",
		"poetry run python -m demo.train":                                    "demo.train",
		"nvidia-smi -l":                                                      "nvidia-smi",
		"/usr/bin/python-tool":                                               "python-tool",
		"/opt/my\x07prog":                                                    "my?prog",
		"/opt/" + strings.Repeat("x", 200):                                   strings.Repeat("x", 100),
	} {
		if got := NameOf(strings.Fields(command)); got != want {
			t.Errorf("%q is called %q, want %q", command, got, want)
		}
	}
}

// Programs that are written out in the command are told from each other.
func TestNameOfText(t *testing.T) {
	for want, command := range map[string][]string{
		"train.py":      {"bash", "-c", "cd /data && python3 src/train.py --lr 3"},
		"fit.sh":        {"env", "A=b", "sh", "-exc", "(./fit.sh); wait"},
		"bash-55673611": {"bash", "-c", "nvidia-smi -l"},
	} {
		if got := NameOf(command); got != want {
			t.Errorf("%q is called %q, want %q", command, got, want)
		}
	}
	for _, text := range [][]string{{"python", "-uc", "import torch"}, {"python", "-cimport torch"}, {"timeout", "5", "python3", "-u", "-c", "import torch"}} {
		if got := NameOf(text); got != NameOf([]string{"python", "-c", "import torch"}) {
			t.Errorf("%q is called %q", text, got)
		}
	}
	one, other := NameOf([]string{"python", "-c", "import torch"}), NameOf([]string{"python3", "-c", "import jax"})
	if one == other || !strings.HasPrefix(one, "python-") || !strings.HasPrefix(other, "python-") {
		t.Errorf("two programs are called %q and %q", one, other)
	}
}
