package upkeep

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

func newVersion(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of berth",
		Example: "  berth version\n  berth version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			versions := map[string]string{"version": con.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
			return con.Answer(versions, fmt.Sprintf("berth %s (%s, %s/%s)", con.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
		},
	}
}
