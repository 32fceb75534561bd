package console

import "github.com/spf13/cobra"

// StateFlag adds the flag that names the state folder, for a command that reads the
// files of a daemon itself.
func StateFlag(cmd *cobra.Command, folder *string) {
	cmd.Flags().StringVar(folder, "state-dir", "", "state `FOLDER` of the daemon (default as configured)")
	_ = cmd.MarkFlagDirname("state-dir") // fails only for a flag that does not exist
}

// StateDir returns the state folder of the daemon: given, or the configured one if
// given is empty.
func (c *Console) StateDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	settings, err := c.Settings("")
	if err != nil {
		return "", Hinted(err, "or name the folder: --state-dir DIR")
	}
	return settings.Config.Daemon.StateDir, nil
}
