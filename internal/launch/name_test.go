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
		"nvidia-smi -l":                     "nvidia-smi",
		"/usr/bin/python-tool":              "python-tool",
		"/opt/my\x07prog":                   "my?prog",
		"/opt/" + strings.Repeat("x", 200):  strings.Repeat("x", 100),
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
	one, other := NameOf([]string{"python", "-c", "import torch"}), NameOf([]string{"python3", "-c", "import jax"})
	if one == other || !strings.HasPrefix(one, "python-") || !strings.HasPrefix(other, "python-") {
		t.Errorf("two programs are called %q and %q", one, other)
	}
}
