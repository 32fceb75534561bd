package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

type versionOptions struct{ *app }

func newVersion(a *app) *cobra.Command {
	o := &versionOptions{a}
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of berth",
		GroupID: groupDaemon,
		Example: "  berth version\n  berth version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
}

func (o *versionOptions) run() error {
	versions := map[string]string{"version": o.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
	return o.answer(versions, fmt.Sprintf("berth %s (%s, %s/%s)", o.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
}
