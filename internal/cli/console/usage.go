package console

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
)

// usageError describes an error in a command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// Usage returns an error that describes what is wrong with the command line.
func Usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// isUsage reports whether err is about the command line, and not about its result:
//
//   - errors before the command runs: unknown commands and flags, values that a flag
//     does not take, too many arguments or too few,
//   - errors that a command makes with Usage,
//   - values of flags that the configuration or the devices do not take,
//   - requests and settings that the daemon calls wrong, because it knows policies,
//     conditions and settings better than the command does.
//
// An object that does not exist, such as a device or a lease, is a refusal.
func (c *Console) isUsage(err error) bool {
	said, named := (*usageError)(nil), (*device.SpecError)(nil)
	settings, problem := (*config.Error)(nil), (*api.Problem)(nil)
	switch {
	case !c.started, errors.As(err, &said):
		return true
	case errors.As(err, &named):
		return c.devicesGiven
	case errors.As(err, &settings):
		return !slices.ContainsFunc(settings.Complaints, func(c config.Complaint) bool { return !strings.HasPrefix(c.Source, "flag --") })
	case errors.As(err, &problem):
		return problem.Code == "invalid_request" || problem.Code == "invalid_config"
	}
	return false
}
