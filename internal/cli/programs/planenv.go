package programs

import (
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/process/cexec"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// order returns the order for a run: its command, in the environment of this process,
// with the variables that keep it to its lease and name the run.
func (s *planStarter) order(run api.PlannedRun, placed api.RunningRun) runOrder {
	command := s.Commands[placed.Pipeline]
	o := runOrder{Path: command.Path, Args: command.Args, Plan: pathOf(s.file.Fd())}
	env := replaced(s.Environ, "BERTH_PIPELINE="+placed.Pipeline, "BERTH_RUN="+run.Name, "BERTH_PLAN")
	if placed.Lease == nil {
		// The run needs no GPU and sees none, and it has no lease either.
		o.Env = replaced(env, "CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "BERTH_LEASE", "BERTH_FENCE", "BERTH_GPUS", "BERTH_MEMORY_MB", "BERTH_CONTEXT_MB")
		return o
	}
	about := placed.Lease.Launch
	ladder := launch.Ladder{Context: about.Context, MPS: about.MPS, Torch: s.torch(o.Path), Socket: s.Socket, Isolation: about.Isolation}
	o.Env, _ = launch.Environment(*placed.Lease, about.Devices, ladder, env)
	return o
}

// torch returns the version of PyTorch that a run would find: the one that the
// interpreter reported, or the one in the folders around the program.
func (s *planStarter) torch(program string) string {
	for i := range s.Plan.Pipelines {
		for _, step := range s.Plan.Pipelines[i].Steps {
			for _, l := range step.Libraries {
				if l.Name == "torch" && l.Version != "" {
					return l.Version
				}
			}
		}
	}
	return cexec.Torch(program)
}

// replaced returns an environment in which entries replace those of the same name. An
// entry without a value only removes the other.
func replaced(env []string, entries ...string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(old string) bool {
		name, _, _ := strings.Cut(old, "=")
		return slices.ContainsFunc(entries, func(entry string) bool { return entry == name || strings.HasPrefix(entry, name+"=") })
	})
	for _, entry := range entries {
		if strings.Contains(entry, "=") {
			env = append(env, entry)
		}
	}
	return env
}
