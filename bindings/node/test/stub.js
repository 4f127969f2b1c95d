/**
 * The library with a stub in C instead of its Go side: one server "demo" whose
 * tools are listed in capi/testdata/stub.c. It is deterministic and needs no Go.
 */

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const SOURCES = [join(REPOSITORY, 'capi'), join(REPOSITORY, 'capi/testdata'), join(REPOSITORY, 'include')]
const NAME = 'libmcprt-stub.so'

/** @returns {string} path of the stub library, built if a source is newer */
export function stubLibrary() {
  const build = join(REPOSITORY, 'build')
  const library = join(build, NAME)
  const newest = Math.max(...SOURCES.flatMap((folder) => readdirSync(folder).map((file) => statSync(join(folder, file)).mtimeMs)))
  if ((statSync(library, { throwIfNoEntry: false })?.mtimeMs ?? 0) > newest) return library
  mkdirSync(build, { recursive: true })
  // Test files run at the same time: each builds its own and one rename wins.
  const folder = mkdtempSync(join(build, 'stub-'))
  try {
    // koffi unloads its libraries when the process ends. The real one stays, as every
    // Go library does; the stub must, too, or its thread runs on without its code.
    execFileSync('sh', [join(REPOSITORY, 'capi/build-stub.sh'), folder, '-Wl,-z,nodelete'], { stdio: ['ignore', 'ignore', 'inherit'] })
    renameSync(join(folder, NAME), library)
  } finally {
    rmSync(folder, { recursive: true })
  }
  return library
}

process.env.MCPRT_LIBRARY = stubLibrary()
