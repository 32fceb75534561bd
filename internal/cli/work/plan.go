package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/leasing"
	"github.com/berth-gpu/berth/internal/cli/programs"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

type planOptions struct {
	*console.Console
	path         string // of the file; "-" is standard input
	mermaid, dot bool
	python       string
	noProbe      bool
	devices      string

	start   bool     // run the plan
	failed  bool     // only the runs that did not end well the last time
	command []string // for every run; empty for those of the file
	timeout console.Seconds
}

func newPlan(con *console.Console) *cobra.Command {
	o := &planOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "plan FILE [--run [-- COMMAND...]]",
		Short: "Plan pipelines before anything runs, or run them",
		Long: `Compile a pipeline file, and show which GPU each pipeline gets, what is
converted between its steps, how much memory it needs at every step, and how
many runs fit side by side. berth asks the Python that will run the pipelines to
import their libraries, each in its own process, and checks which GPUs they see.
It reports all problems of a file at once.

With --run, start COMMAND for every run, each under its own lease, as many side
by side as there are slots. Without COMMAND, start the command that the file has
for the pipeline. BERTH_PIPELINE, BERTH_RUN and BERTH_PLAN tell the command what
to run. The lease ends with its process. Interrupt berth to stop all runs.
What each of several runs prints is also kept in a folder beside FILE, such as
plate.runs; --failed runs only those again that did not end well the last time.`,
		Example: `  berth plan image.yaml
  berth plan plate.yaml --devices sim:8 --no-probe
  berth plan image.yaml --mermaid
  berth plan plate.yaml --run -- python3 well.py
  berth plan plate.yaml --run --failed -- python3 well.py`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault // arguments of the command
			}
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.mermaid, "mermaid", false, "draw the plan as a Mermaid flowchart")
	flags.BoolVar(&o.dot, "dot", false, "draw the plan for Graphviz")
	flags.StringVar(&o.python, "python", "python3", "`PYTHON` that will run the pipelines")
	flags.BoolVar(&o.noProbe, "no-probe", false, "do not ask Python for its libraries")
	flags.BoolVar(&o.start, "run", false, "run the plan")
	flags.BoolVar(&o.failed, "failed", false, "run only what did not end well the last time")
	flags.Var(&o.timeout, "timeout", "each run waits this `TIME` for room, as in 10m\n(default: as long as it takes)")
	_ = cmd.MarkFlagFilename("python")
	console.DevicesFlag(cmd, &o.devices)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.take(args, cmd.ArgsLenAtDash()); err != nil {
			return err
		}
		return o.run(cmd.Context())
	}
	return cmd
}

// take reads the arguments, of which dash come before a "--". Without one, dash is -1.
func (o *planOptions) take(args []string, dash int) error {
	before := args
	if dash >= 0 {
		before, o.command = args[:dash], args[dash:]
	}
	formats := 0
	for _, format := range []bool{o.JSON, o.mermaid, o.dot} {
		if format {
			formats++
		}
	}
	switch {
	case len(before) == 0:
		return console.Usage("give a pipeline file, as in: berth plan image.yaml")
	case len(before) > 1:
		return console.Usage("plan takes one file, not %q; a command comes after --run --", before)
	case formats > 1:
		return console.Usage("give one of --json, --mermaid and --dot")
	case !o.start && (dash >= 0 || o.timeout.Known() || o.failed):
		return console.Usage("a command, --timeout and --failed need --run, as in: berth plan %s --run -- python3 well.py", words.Shell(before[0]))
	case o.failed && before[0] == "-":
		return console.Usage("--failed needs a file: berth keeps nothing of pipelines on standard input")
	case o.start && (o.mermaid || o.dot || o.devices != ""):
		return console.Usage("--run takes no --mermaid, --dot or --devices")
	case o.start && dash >= 0 && len(o.command) == 0:
		return console.Usage("the command after -- is missing")
	}
	o.path = before[0]
	return nil
}

func (o *planOptions) run(ctx context.Context) error {
	text, err := o.Read(ctx, o.path, pipeline.MaxFile+1) // one byte more than allowed shows that it is too large
	if err != nil {
		return console.Unread("read the pipelines", o.path, err)
	}
	file, wrong := pipeline.Parse(console.NameOf(o.path), text)
	switch {
	case file == nil:
		return wrong
	case wrong != nil:
		return o.refuse(ctx, file, text, wrong)
	case o.start:
		return o.runFile(ctx, file, text)
	}
	v, err := o.Look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.Close()
	plan, err := o.compile(ctx, v.Client, file, text)
	if err != nil {
		return err
	}
	return o.printPlan(plan)
}

// refuse returns the problems of a file, and those that would remain after a
// correction, if it can compile the rest.
func (o *planOptions) refuse(ctx context.Context, file *pipeline.File, text []byte, wrong error) error {
	v, err := o.Look(ctx, o.devices)
	if err != nil {
		return wrong
	}
	defer v.Close()
	_, err = o.compile(ctx, v.Client, file, text)
	if all := (*pipeline.Error)(nil); errors.As(err, &all) || ctx.Err() != nil {
		return err
	}
	return wrong
}

// compile asks the interpreter for the libraries and the daemon for the plan.
func (o *planOptions) compile(ctx context.Context, c *client.Client, file *pipeline.File, text []byte) (api.Plan, error) {
	request := api.PlanRequest{Name: words.End(console.NameOf(o.path), 128), Text: string(text), Interpreter: o.python}
	if !o.noProbe {
		if err := o.probe(ctx, file, &request); err != nil {
			return api.Plan{}, err
		}
	}
	plan, err := c.Plan(ctx, request)
	return plan, o.asRead(err)
}

// asRead rewords a refusal in terms of the file.
func (o *planOptions) asRead(err error) error {
	refusal := (*api.Problem)(nil)
	if !errors.As(err, &refusal) || refusal.Code != "plan_refused" {
		return err
	}
	text, marshalled := json.Marshal(refusal.Extra["problems"])
	all := pipeline.Error{Op: "compile", File: console.NameOf(o.path)}
	if marshalled != nil || json.Unmarshal(text, &all.Problems) != nil || len(all.Problems) == 0 {
		return err
	}
	if slices.ContainsFunc(all.Problems, func(p pipeline.Problem) bool { return p.Code == pipeline.MissingLibrary }) {
		return console.Hinted(&all, "see the plan without the libraries: berth plan "+words.Shell(o.path)+" --no-probe")
	}
	return &all
}

// printPlan writes a plan in the requested form.
func (o *planOptions) printPlan(plan api.Plan) error {
	if o.JSON {
		return o.PrintJSON(plan)
	}
	text := pipeline.Table(&plan, pipeline.Width)
	switch {
	case o.mermaid:
		text = pipeline.Mermaid(&plan)
	case o.dot:
		text = pipeline.DOT(&plan)
	}
	return o.Print(strings.TrimRight(text, "\n"))
}

// probe asks the interpreter which libraries it can import.
func (o *planOptions) probe(ctx context.Context, file *pipeline.File, request *api.PlanRequest) error {
	libraries := file.Libraries()
	defer o.Slowly(fmt.Sprintf("asking %s for %s", term.Clean(o.python), strings.Join(libraries, ", ")))()
	return programs.Probe(ctx, o.python, o.Environ, libraries, request)
}

// becomeCommand is the hidden command that waits for the command to become.
const becomeCommand = "become"

func newBecome(_ *console.Console, become leasing.Become) *cobra.Command {
	return &cobra.Command{
		Use:     becomeCommand,
		Short:   "Wait for the order of berth plan --run, and become that command",
		Example: "  berth plan plate.yaml --run -- python3 well.py",
		Hidden:  true,
		RunE:    func(*cobra.Command, []string) error { return obey(become) },
	}
}

func obey(become leasing.Become) error {
	err := programs.Obey(become)
	if errors.Is(err, programs.ErrNoOrder) {
		return console.ErrReported // nobody is left to read it
	}
	return err
}
