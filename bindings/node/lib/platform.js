/**
 * The package that carries the shared library and the command line tool for one
 * kind of machine (for musl the tool alone, which does the work of the library there). npm installs the one that fits, by its `os`, `cpu` and `libc`;
 * pack.js makes them, under the names that are built here.
 */

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readElf } from './elf.js'

/** The folder of this package. */
export const PACKAGE = dirname(dirname(fileURLToPath(import.meta.url)))

const LIBRARIES = /** @type {Record<string, string>} */ ({ darwin: 'libmcprt.0.dylib', win32: 'mcprt.dll' })
/** @param {string} [os] in the words of process.platform */
export const libraryName = (os = process.platform) => LIBRARIES[os] ?? 'libmcprt.so.0'
/** @param {string} [os] in the words of process.platform */
export const toolName = (os = process.platform) => (os === 'win32' ? 'mcprt.exe' : 'mcprt')

/**
 * @param {string} [os] in the words of process.platform
 * @param {string} [cpu] in the words of process.arch
 * @param {'gnu' | 'musl'} [libc] of Linux
 * @returns {string} such as "@mcprt/linux-x64-gnu"
 */
export function platformPackage(os = process.platform, cpu = process.arch, libc = isMusl() ? 'musl' : 'gnu') {
  return `@mcprt/${os}-${cpu}${os === 'linux' ? `-${libc}` : ''}`
}

/** @param {string} [program] @returns {boolean} whether this Node (or the like) was built for musl, as those of Alpine Linux are */
export function isMusl(program = process.execPath) {
  return process.platform === 'linux' && /\/ld-musl/.test(readElf(program)?.interpreter ?? '')
}

/**
 * @param {string} file of the platform's package
 * @param {string} packageFolder whose dependencies are searched
 * @returns {string | undefined} where it is, if the package is installed
 */
export function fromPlatformPackage(file, packageFolder) {
  try {
    const manifest = createRequire(join(packageFolder, 'package.json')).resolve(`${platformPackage()}/package.json`)
    const path = join(dirname(manifest), file)
    return existsSync(path) ? path : undefined
  } catch {
    return undefined // not installed, or nothing that can be read
  }
}

/**
 * @param {string} file of build/
 * @param {string} packageFolder
 * @returns {string | undefined} where make build puts it, if this package is that of a checkout
 */
export function fromCheckout(file, packageFolder) {
  const checkout = resolve(packageFolder, '..', '..')
  return existsSync(join(checkout, 'include', 'mcprt.h')) ? join(checkout, 'build', file) : undefined
}

/**
 * @param {string} packageFolder
 * @returns {string} what to do when the platform's package is missing
 */
export function advice(packageFolder) {
  const checkout = fromCheckout('', packageFolder)
  if (checkout) return `run "make build" in ${dirname(checkout)}`
  return `install ${platformPackage()} in the version of mcprt (npm leaves it out with --omit=optional, and when node_modules comes from another kind of machine)`
}
