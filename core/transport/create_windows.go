package transport

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// jobList is PROC_THREAD_ATTRIBUTE_JOB_LIST, which x/sys does not name.
const jobList = 0x0002000d

// create starts what cmd describes inside a job. Of cmd it knows the fields that servers
// and helpers use: Path, Args, Env, Dir, the three standard files (nil is the null device)
// and, of SysProcAttr, CmdLine, CreationFlags and HideWindow. cmd.Wait works once
// cmd.Process is what this gives.
func create(cmd *exec.Cmd, job windows.Handle) (*os.Process, error) {
	path := cmd.Path
	if cmd.Dir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path) // else it would be looked for in the host's directory
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	text := cmd.SysProcAttr.CmdLine
	if text == "" {
		text = windows.ComposeCommandLine(cmd.Args)
	}
	line, err := windows.UTF16PtrFromString(text)
	if err != nil {
		return nil, err
	}
	var dir *uint16
	if cmd.Dir != "" {
		if dir, err = windows.UTF16PtrFromString(cmd.Dir); err != nil {
			return nil, err
		}
	}
	env, err := environmentBlock(cmd.Environ())
	if err != nil {
		return nil, err
	}

	std := [3]any{cmd.Stdin, cmd.Stdout, cmd.Stderr}
	var handles [3]windows.Handle
	// No other start of this program may inherit them meanwhile: its own list names others,
	// but a start without a list inherits all.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	for i, f := range std {
		file, ok := f.(*os.File)
		if !ok {
			if f != nil {
				return nil, fmt.Errorf("standard file %d is no file", i)
			}
			if file, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return nil, err
			}
			defer file.Close()
		}
		if err := windows.DuplicateHandle(windows.CurrentProcess(), windows.Handle(file.Fd()), windows.CurrentProcess(), &handles[i], 0, true, windows.DUPLICATE_SAME_ACCESS); err != nil {
			return nil, err
		}
		defer windows.CloseHandle(handles[i])
	}

	attributes, err := windows.NewProcThreadAttributeList(2)
	if err != nil {
		return nil, err
	}
	defer attributes.Delete()
	if err := attributes.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&handles[0]), unsafe.Sizeof(handles)); err != nil {
		return nil, err
	}
	if err := attributes.Update(jobList, unsafe.Pointer(&job), unsafe.Sizeof(job)); err != nil {
		return nil, err
	}
	start := windows.StartupInfoEx{ProcThreadAttributeList: attributes.List()}
	start.Cb = uint32(unsafe.Sizeof(start))
	start.Flags = windows.STARTF_USESTDHANDLES
	if cmd.SysProcAttr.HideWindow {
		start.Flags |= windows.STARTF_USESHOWWINDOW
		start.ShowWindow = windows.SW_HIDE
	}
	start.StdInput, start.StdOutput, start.StdErr = handles[0], handles[1], handles[2]
	flags := cmd.SysProcAttr.CreationFlags | windows.CREATE_UNICODE_ENVIRONMENT | windows.EXTENDED_STARTUPINFO_PRESENT
	var made windows.ProcessInformation
	if err := windows.CreateProcess(name, line, nil, nil, true, flags, &env[0], dir, &start.StartupInfo, &made); err != nil {
		return nil, &os.PathError{Op: "create process", Path: path, Err: err}
	}
	runtime.KeepAlive(std)
	windows.CloseHandle(made.Thread)
	defer windows.CloseHandle(made.Process) // its number is its own as long as this is open
	process, err := os.FindProcess(int(made.ProcessId))
	if err != nil {
		windows.TerminateProcess(made.Process, 1)
	}
	return process, err
}

// environmentBlock is how CreateProcess wants the variables: each ends with a NUL, and
// one more ends the block.
func environmentBlock(env []string) ([]uint16, error) {
	var block []uint16
	for _, v := range env {
		one, err := windows.UTF16FromString(v)
		if err != nil {
			return nil, fmt.Errorf("an environment variable has a NUL: %w", err)
		}
		block = append(block, one...)
	}
	if len(block) == 0 {
		block = append(block, 0)
	}
	return append(block, 0), nil
}
