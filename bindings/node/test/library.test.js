/** What a person reads when the library cannot be used. */

import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { LibraryError, Runtime } from '../index.js'
import { readElf } from '../lib/elf.js'
import { findLibrary, findTool, servingTool } from '../lib/library.js'
import { isMusl, libraryName, platformPackage } from '../lib/platform.js'
import { stubLibrary } from './stub.js'

const PACKAGE = fileURLToPath(new URL('..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'mcprt-node-'))
after(() => rmSync(folder, { recursive: true }))

/**
 * Opens a runtime in a program of its own.
 * @param {object} options
 * @param {string} [options.library] MCPRT_LIBRARY
 * @param {string} [options.index] which copy of the package
 * @param {string} [options.code]
 * @returns {Promise<string>} what it printed: the error, or "opened"
 */
function open({ library, index = join(PACKAGE, 'index.js'), code = '' }) {
  const source = `import { Runtime, LibraryError } from ${JSON.stringify(index)}
    ${code}
    await Runtime.open().then(
      (runtime) => (console.log('opened'), runtime.close()),
      (error) => console.log(error.name, error instanceof LibraryError, error.message),
    )`
  const { MCPRT_LIBRARY, ...env } = process.env
  return new Promise((resolve, reject) => {
    const options = { timeout: 20_000, killSignal: /** @type {const} */ ('SIGKILL'), env: library ? { ...env, MCPRT_LIBRARY: library } : env }
    execFile(process.execPath, ['--input-type=module', '--eval', source], options, (error, stdout, stderr) => {
      if (error) reject(error)
      else resolve(stdout + stderr)
    })
  })
}

/** @param {string} name @param {string} source of C */
function build(name, source) {
  const path = join(folder, name)
  execFileSync('gcc', ['-shared', '-fPIC', '-x', 'c', '-', '-o', path], { input: source })
  return path
}

/** A copy of the package without its dependencies, alone in a folder. */
function copyOfPackage() {
  const copy = mkdtempSync(join(folder, 'package-'))
  cpSync(join(PACKAGE, 'lib'), join(copy, 'lib'), { recursive: true })
  for (const file of ['index.js', 'package.json']) cpSync(join(PACKAGE, file), join(copy, file))
  return copy
}

test('a path that MCPRT_LIBRARY names must exist', async () => {
  const output = await open({ library: join(folder, 'nothing.so') })
  assert.match(output, /^LibraryError true MCPRT_LIBRARY names .*nothing\.so, which does not exist; correct or unset it\n$/)
})

test('without a library the places are named', async () => {
  const output = await open({ index: join(copyOfPackage(), 'index.js') })
  const [name, platform] = [libraryName(), platformPackage()]
  assert.ok(output.startsWith(`LibraryError true the mcprt library for ${process.platform}-${process.arch} was not found: ${name} is not in the package ${platform}; install ${platform} `), output)
  assert.match(output, /--omit=optional.*, or set MCPRT_LIBRARY to/)
})

test("the platform's package is found, and koffi may be missing", async () => {
  const copy = copyOfPackage()
  const index = join(copy, 'index.js')
  const platform = join(copy, 'node_modules', platformPackage())
  mkdirSync(platform, { recursive: true })
  writeFileSync(join(platform, 'package.json'), '{}')
  assert.match(await open({ index }), /was not found: .* is not in the package/) // a package without its file
  cpSync(stubLibrary(), join(platform, libraryName()))
  const output = await open({ index })
  assert.match(output, /^LibraryError true koffi, .* cannot be loaded \(Cannot find package 'koffi'.*\); run "npm install" again/)
  // A package that has its lock file is that of a checkout, which npm only links.
  writeFileSync(join(copy, 'package-lock.json'), '{}')
  assert.ok((await open({ index })).includes(`; run "npm ci" in ${copy}\n`))
  for (const dependency of ['koffi', '@koromix']) {
    cpSync(join(PACKAGE, 'node_modules', dependency), join(copy, 'node_modules', dependency), { recursive: true })
  }
  assert.equal(await open({ index }), 'opened\n')
})

test('the path that the program gives wins, and stays', async () => {
  const library = stubLibrary()
  const source = `import { Runtime } from ${JSON.stringify(join(PACKAGE, 'index.js'))}
    const opened = (options) => Runtime.open(options).then((runtime) => runtime.close(), ({ name, message }) => console.log(name, message))
    await opened({ library: '/nowhere.so' })
    await opened({ library: ${JSON.stringify(library)} })
    await opened({})
    await opened({ library: ${JSON.stringify(library)} })
    await opened({ library: '/other.so' })`
  const env = { ...process.env, MCPRT_LIBRARY: '/nowhere-else.so' }
  const output = execFileSync(process.execPath, ['--input-type=module', '--eval', source], { env, encoding: 'utf8', timeout: 20_000 })
  assert.deepEqual(output.split('\n'), [
    'LibraryError the option library names /nowhere.so, which does not exist; correct or unset it',
    `LibraryError this process uses the mcprt library ${library} already, and cannot use /other.so besides; give each open the same path`,
    '',
  ])
})

test('a Runtime made with new says how it is made', () => {
  assert.throws(() => Reflect.construct(Runtime, []), { name: 'TypeError', message: /await Runtime\.open/ })
})

test('a development checkout is used when nothing else is there', () => {
  const checkout = mkdtempSync(join(folder, 'checkout-'))
  for (const part of ['build', 'include', 'bindings/node']) mkdirSync(join(checkout, part), { recursive: true })
  const packageFolder = join(checkout, 'bindings/node')
  const find = () => findLibrary({ variable: '', packageFolder })
  assert.throws(find, LibraryError)
  writeFileSync(join(checkout, 'build', libraryName()), '')
  assert.throws(find, LibraryError) // any folder may have a build/
  writeFileSync(join(checkout, 'include/mcprt.h'), '')
  assert.equal(find(), join(checkout, 'build', libraryName()))
  rmSync(join(checkout, 'build', libraryName()))
  assert.throws(find, ({ message }) => message.includes(`run "make build" in ${checkout}, or set MCPRT_LIBRARY`))
})

test('files that are no library, or another one', async () => {
  const text = join(folder, 'text.so')
  writeFileSync(text, 'not a library')
  assert.match(await open({ library: text }), /^LibraryError true .*text\.so is not a 64-bit Linux library/)
  const other = build('other.so', 'int other(void) { return 0; }')
  assert.match(await open({ library: other }), /^LibraryError true .*other\.so cannot be loaded as the mcprt library \(.*mcprt_version.*\); build it again/)
})

const FUNCTIONS = `
  #include <stdint.h>
  const char *mcprt_version(void) { return "7.1.0"; }
  int mcprt_open() { return -3; } void mcprt_free() {} int mcprt_submit() { return -3; } int mcprt_cancel() { return -3; }
  int mcprt_drain() { return -3; } int mcprt_notify_fd() { return -3; } void mcprt_buf_free() {}
`

test('a library of another version', async () => {
  const library = build('version.so', `${FUNCTIONS} int mcprt_check(int32_t a, int32_t m) { return a == 0 && m == 1 ? -4 : 0; }`)
  assert.match(await open({ library }), /^LibraryError true .*has version 7\.1\.0, but this package needs ABI 0 with at least version 0\.1; install both/)
})

test('a forked process', async () => {
  const library = build('fork.so', `${FUNCTIONS} int mcprt_check(int32_t a, int32_t m) { return -3; }`)
  assert.match(await open({ library }), /^ForkError true this process was forked without exec, .*spawn/)
  const late = build('late.so', `${FUNCTIONS} int mcprt_check(int32_t a, int32_t m) { return 0; }`)
  assert.match(await open({ library: late }), /^ForkError true this process was forked/)
})

/** The first bytes of an ELF file. @param {{machine?: number, interpreter?: string}} options */
function elf({ machine = 0x3e, interpreter = '/lib64/ld-linux-x86-64.so.2' }) {
  const file = Buffer.alloc(64 + 56 + 64)
  file.write('\x7fELF\x02\x01', 'latin1')
  file.writeUInt16LE(machine, 18)
  file.writeBigUInt64LE(64n, 32)
  file.writeUInt16LE(56, 54)
  file.writeUInt16LE(1, 56)
  file.writeUInt32LE(3, 64)
  file.writeBigUInt64LE(120n, 64 + 8)
  file.writeBigUInt64LE(BigInt(interpreter.length + 1), 64 + 32)
  file.write(interpreter, 120)
  return file
}

test('a library for another processor', async () => {
  const library = join(folder, 'machine.so')
  const [machine, name] = process.arch === 'arm64' ? [0x3e, 'x64'] : [0xb7, 'arm64']
  writeFileSync(library, elf({ machine }))
  const output = await open({ library })
  assert.match(output, new RegExp(`^LibraryError true .*machine\\.so was built for ${name}, but this Node runs on ${process.arch}; install`))
})

test('a library that is no file, or cannot be read', async () => {
  assert.match(await open({ library: folder }), /^LibraryError true MCPRT_LIBRARY names .*, which is no file; correct or unset it\n$/)
  const library = join(folder, 'secret.so')
  writeFileSync(library, elf({}), { mode: 0 })
  if (process.getuid?.() !== 0) assert.match(await open({ library }), /^LibraryError true .*secret\.so cannot be read \(EACCES.*\); correct its permissions/)
})

test('a library of which the end is missing', async () => {
  const library = join(folder, 'half.so')
  const whole = readFileSync(stubLibrary())
  for (const length of [64, 200, 4096]) {
    writeFileSync(library, whole.subarray(0, length))
    assert.match(await open({ library }), /^LibraryError true .*half\.so is only the beginning of a library; copy or install it again\n$/)
  }
  assert.equal(readElf(stubLibrary())?.isWhole, true)
})

test('a library for a newer glibc', async () => {
  const library = join(folder, 'newer.so')
  const bytes = readFileSync(stubLibrary())
  const at = bytes.indexOf('\0GLIBC_2.') + 1
  assert.ok(at > 0)
  bytes.write('GLIBC_9.', at) // its hash does not fit any more, so no system has it
  writeFileSync(library, bytes)
  const output = await open({ library })
  assert.match(output, /^LibraryError true .*newer\.so cannot be loaded as the mcprt library \(it needs glibc 9\.[\d.]+, and this system's is older\); set MCPRT_BACKEND=serve, .*use a newer system, or run "make build"/)
})

test('on musl the tool takes the place of the library', (t) => {
  const { MCPRT_BACKEND, MCPRT_TOOL, PATH } = process.env
  t.after(() => {
    for (const [name, value] of Object.entries({ MCPRT_BACKEND, MCPRT_TOOL, PATH })) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  })
  delete process.env.MCPRT_BACKEND
  delete process.env.MCPRT_TOOL
  const node = join(folder, 'node')
  writeFileSync(node, elf({ interpreter: '/lib/ld-musl-x86_64.so.1' }))
  assert.equal(isMusl(node), true)
  assert.equal(isMusl(process.execPath), false)
  assert.equal(servingTool(process.execPath), undefined)
  process.env.MCPRT_TOOL = node
  assert.equal(servingTool(node), node)
  process.env.MCPRT_BACKEND = 'serve'
  assert.equal(servingTool(process.execPath), node)
  process.env.MCPRT_BACKEND = 'library'
  assert.equal(servingTool(process.execPath), undefined)
  assert.throws(() => servingTool(node), { name: 'LibraryError', message: /built for musl .*; unset MCPRT_BACKEND, .*glibc/ })
  process.env.MCPRT_BACKEND = 'pipe'
  assert.throws(() => servingTool(node), { name: 'LibraryError', message: 'MCPRT_BACKEND is "pipe"; it can be "library" or "serve", or be unset' })
  process.env.MCPRT_TOOL = join(folder, 'none')
  assert.throws(() => findTool(), { name: 'LibraryError', message: /MCPRT_TOOL names .*none, which does not exist/ })
})

test('on musl without a tool', (t) => {
  const { PATH, MCPRT_TOOL } = process.env
  t.after(() => {
    process.env.PATH = PATH
    if (MCPRT_TOOL !== undefined) process.env.MCPRT_TOOL = MCPRT_TOOL
  })
  delete process.env.MCPRT_TOOL
  const bin = mkdtempSync(join(folder, 'bin-'))
  process.env.PATH = bin
  const packageFolder = mkdtempSync(join(folder, 'package-'))
  assert.throws(() => findTool({ isMusl: true, packageFolder }), {
    name: 'LibraryError',
    message: /^this Node was built for musl \(Alpine Linux and others, linux-\w+\), .* was not found: not in the package @mcprt\/.*, and not on PATH; install the tool .*glibc/,
  })
  // What npm and pip write runs us again.
  writeFileSync(join(bin, 'mcprt'), '#!/bin/sh\n', { mode: 0o755 })
  assert.throws(() => findTool({ packageFolder }), { name: 'LibraryError', message: /^MCPRT_BACKEND=serve asks/ })
  writeFileSync(join(bin, 'mcprt'), elf({}), { mode: 0o755 })
  assert.equal(findTool({ packageFolder }), join(bin, 'mcprt'))
})

test('damaged ELF files are read without harm', () => {
  const path = join(folder, 'damaged')
  const whole = elf({})
  for (const length of [0, 5, 63, 64, 100, 130]) {
    writeFileSync(path, whole.subarray(0, length))
    assert.equal(readElf(path) === undefined, length < 64)
  }
  writeFileSync(path, Buffer.concat([whole.subarray(0, 32), Buffer.alloc(32, 0xff)]))
  assert.equal(readElf(path)?.interpreter, undefined)
  assert.equal(readElf(path)?.isWhole, false)
  assert.equal(readElf(process.execPath)?.arch, process.arch)
  assert.equal(readElf(process.execPath)?.isWhole, true)
})

test('a failure is not remembered', async () => {
  const code = `
    process.env.MCPRT_LIBRARY = '/nowhere.so'
    await Runtime.open().catch(({ message }) => console.log(message.slice(0, 13)))
    process.env.MCPRT_LIBRARY = ${JSON.stringify(stubLibrary())}`
  assert.equal(await open({ code }), 'MCPRT_LIBRARY\nopened\n')
})

test('the import alone loads nothing', async () => {
  const code = `
    const libraries = process.report.getReport().sharedObjects.filter((path) => /mcprt|koffi/.test(path))
    console.log(libraries.length)`
  assert.equal(await open({ library: stubLibrary(), code }), '0\nopened\n')
})
