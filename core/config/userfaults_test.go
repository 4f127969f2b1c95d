package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestUserFaults: see core/userfaults_test.go.
func TestUserFaults(t *testing.T) {
	t.Run("A8 npx is npx.cmd on Windows", func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{"npx.cmd", "both.exe", "both.cmd"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, pathext := range []string{".COM;.EXE;.BAT;.CMD", ".com;.exe;.bat;.cmd", ""} {
			e := newEnv("windows", map[string]string{"path": "/nothing;" + dir, "PathExt": pathext})
			for command, want := range map[string]string{"npx": "npx.cmd", "npx.cmd": "npx.cmd", "both": "both.exe", "both.cmd": "both.cmd"} {
				if got, err := e.LookPath(command, dir); err != nil || got != filepath.Join(dir, want) {
					t.Errorf("PATHEXT=%s, %s: %q, %v", pathext, command, got, err)
				}
			}
		}
	})
	t.Run("A9 what every Windows program needs", func(t *testing.T) {
		e := newEnv("windows", map[string]string{"Path": "p", "PATHEXT": ".CMD", "ComSpec": "cmd.exe", "SystemRoot": "s", "windir": "w", "OTHER": "x"})
		needed := []string{"ComSpec=cmd.exe", "PATHEXT=.CMD", "SystemRoot=s", "windir=w"}
		for _, policy := range []EnvPolicy{{Clear: true}, {Allow: []string{"path"}}, {}} {
			got := e.ChildEnv(policy, nil)
			for _, v := range needed {
				if !slices.Contains(got, v) {
					t.Errorf("%+v: %s is not in %q", policy, v, got)
				}
			}
			if all := !policy.Clear && policy.Allow == nil; slices.Contains(got, "OTHER=x") != all || slices.Contains(got, "Path=p") == policy.Clear {
				t.Errorf("%+v: %q", policy, got)
			}
		}
	})
}
