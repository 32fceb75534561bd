package rights

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/desk/doctor"
)

type auditVerifyOptions struct {
	*console.Console
	stateDir string
}

func newAuditVerify(con *console.Console) *cobra.Command {
	o := &auditVerifyOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that no entry of the audit log is missing",
		Long: `Check that no entry of the audit log is missing, changed or out of order. Each
entry carries the hash of the one before, and the journal names the newest one,
so that a log whose end was cut off is noticed too. The exit code is 1 if
something is wrong.

The command reads the files in the state folder of the daemon, so you need to be
root or the user that runs the daemon. The daemon may run.`,
		Example: "  berth audit verify\n  berth audit verify --state-dir /var/lib/berth --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
	console.StateFlag(cmd, &o.stateDir)
	return cmd
}

func (o *auditVerifyOptions) run() error {
	state, err := o.StateDir(o.stateDir)
	if err != nil {
		return err
	}
	verdict, err := doctor.VerifyAudit(state)
	if err != nil {
		return err
	}
	if err := o.Answer(verdict, view.AuditVerdict(verdict, o.Screen())...); err != nil {
		return err
	}
	if !verdict.Sound {
		return console.ErrReported
	}
	return nil
}
