//go:build !linux

package core

func hostMain() {}
