package programs

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/process/child"
)

// NoCommandError means that neither the file nor the caller has a command for a
// pipeline.
type NoCommandError struct{ Pipeline string }

func (e *NoCommandError) Error() string {
	return fmt.Sprintf("pipeline %q has no command: add command: to the file, or give one after --run --", e.Pipeline)
}

// Commands returns the command of every pipeline of a file, by the name of the
// pipeline: given, or the command in the file if given is empty. It finds programs in
// path, which is a list of folders as in PATH.
func Commands(file *pipeline.File, given []string, path string) (map[string]Command, error) {
	all := map[string]Command{}
	for i := range file.Pipelines {
		p := &file.Pipelines[i]
		args := given
		if len(args) == 0 {
			args = p.Command
		}
		if len(args) == 0 {
			return nil, &NoCommandError{p.Name}
		}
		program, err := child.Program(args[0], path)
		if err != nil {
			return nil, fmt.Errorf("pipeline %q: %w", p.Name, err)
		}
		all[p.Name] = Command{Path: program, Args: args}
	}
	return all, nil
}
