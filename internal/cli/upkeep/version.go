package upkeep

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

type versionOptions struct{ *console.Console }

func newVersion(con *console.Console) *cobra.Command {
	o := &versionOptions{con}
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of berth",
		Example: "  berth version\n  berth version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
}

func (o *versionOptions) run() error {
	versions := map[string]string{"version": o.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
	return o.Answer(versions, fmt.Sprintf("berth %s (%s, %s/%s)", o.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
}
