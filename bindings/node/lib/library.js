/**
 * Finds, checks and loads the shared library, and says in one sentence why that
 * failed. It happens at the first Runtime.open, not at import: a program that
 * never opens a runtime never starts Go.
 */

import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isMainThread } from 'node:worker_threads'
import { ABI, MINOR, Status } from './abi.js'
import { readElf } from './elf.js'
import { LibraryError, statusError } from './errors.js'
import { Native } from './native.js'

const PACKAGE = dirname(dirname(fileURLToPath(import.meta.url)))
const FILE_NAMES = /** @type {Record<string, string>} */ ({ darwin: 'libmcprt.0.dylib', win32: 'mcprt.dll' })
const FILE_NAME = FILE_NAMES[process.platform] ?? 'libmcprt.so.0'

/** @type {Promise<Native> | undefined} */
let loading

/**
 * One library per process (and per worker thread, which has its own koffi). A
 * failure is not remembered: the cause may be gone at the next try.
 * @returns {Promise<Native>}
 */
export function loadLibrary() {
  loading ??= load().catch((error) => {
    loading = undefined
    throw error
  })
  return loading
}

/**
 * The first child of a Node program makes libuv set a handler for SIGCHLD that runs
 * on whatever stack is in use. On a thread of Go that stack is too small for it, and
 * other memory is overwritten. Go mends the handlers that exist when it starts: so
 * let there be one, and let it stay. (The library mends later ones at its next call.)
 */
function settleChildSignal() {
  if (isMainThread && process.platform !== 'win32') process.on('SIGCHLD', () => {})
}

async function load() {
  refuseMusl(process.execPath)
  const path = findLibrary(process.env.MCPRT_LIBRARY)
  refuseForeign(path)
  const koffi = await importKoffi()
  settleChildSignal()
  let native
  try {
    native = new Native(koffi, path)
  } catch (error) {
    throw new LibraryError(`${path} cannot be loaded as the mcprt library (${reason(error)}); build it again or reinstall the package`, {
      cause: error,
    })
  }
  const status = native.check(ABI, MINOR)
  if (status === Status.EVERSION) {
    throw new LibraryError(
      `${path} has version ${native.version()}, but this package needs ABI ${ABI} with at least version ${ABI}.${MINOR}; install both from the same release`,
    )
  }
  if (status < 0) throw statusError(status)
  return native
}

/**
 * @param {string | undefined} override the value of MCPRT_LIBRARY
 * @param {string} [packageFolder]
 * @returns {string} an existing path
 */
export function findLibrary(override, packageFolder = PACKAGE) {
  if (override) {
    const path = resolve(override)
    if (!existsSync(path)) throw new LibraryError(`MCPRT_LIBRARY names ${path}, which does not exist; correct or unset it`)
    return path
  }
  const places = [join(packageFolder, FILE_NAME)]
  const checkout = resolve(packageFolder, '..', '..')
  if (existsSync(join(checkout, 'include', 'mcprt.h'))) places.push(join(checkout, 'build', FILE_NAME))
  const path = places.find((place) => existsSync(place))
  if (path) return path
  throw new LibraryError(
    `the mcprt library for ${process.platform}-${process.arch} was not found at ${places.join(' or ')}; ` +
      'run "make build" in a checkout, or set MCPRT_LIBRARY to its path',
  )
}

/**
 * Go's runtime cannot be loaded into a musl process (golang/go#13492).
 * @param {string} program the running Node
 */
export function refuseMusl(program) {
  if (process.platform === 'linux' && /\/ld-musl/.test(readElf(program)?.interpreter ?? '')) {
    throw new LibraryError('this Node was built for musl (Alpine Linux), where a Go library cannot be loaded; use a Node built for glibc, such as the image node:20-slim')
  }
}

/** @param {string} path */
function refuseForeign(path) {
  if (process.platform !== 'linux') return
  const elf = readElf(path)
  if (!elf) throw new LibraryError(`${path} is not a 64-bit Linux library; build it again or reinstall the package`)
  if (elf.arch !== process.arch) {
    throw new LibraryError(`${path} was built for ${elf.arch}, but this Node runs on ${process.arch}; install the library for ${process.arch}`)
  }
}

async function importKoffi() {
  try {
    return (await import('koffi')).default
  } catch (error) {
    // npm links a package that is a folder, and does not install what the folder needs.
    const advice = existsSync(join(PACKAGE, 'package-lock.json'))
      ? `run "npm ci" in ${PACKAGE}`
      : 'run "npm install" again without --omit=optional'
    throw new LibraryError(
      `koffi, through which Node calls the mcprt library, cannot be loaded (${reason(error)}); ${advice}`,
      { cause: error },
    )
  }
}

/** @param {unknown} error @returns {string} its first line */
function reason(error) {
  return String(error instanceof Error ? error.message : error).split('\n')[0]
}
