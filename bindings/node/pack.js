/**
 * `make npm`: writes the packages as npm would publish them.
 *
 *     node pack.js FOLDER [BUILD …]
 *
 * One main package without anything of a platform, and one package for each BUILD: a
 * folder with the library and the tool (default: build/ of this checkout, for this
 * machine), or PLATFORM=FOLDER with PLATFORM such as linux-arm64, or linux-arm64-musl
 * for the tool alone, which does the work of the library there. The main package
 * names those platforms, in exactly its version, as optional dependencies, so that
 * npm installs the one that fits.
 */

import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { PACKAGE, libraryName, platformPackage, toolName } from './lib/platform.js'

const CHECKOUT = resolve(PACKAGE, '..', '..')

/**
 * @typedef {object} Build
 * @property {string} os in the words of process.platform
 * @property {string} cpu in the words of process.arch
 * @property {'gnu' | 'musl'} libc of Linux
 * @property {string} folder
 */

/** @param {string} argument @returns {Build} */
function parseBuild(argument) {
  const [, platform, folder] = /^(?:([^=]*)=)?(.*)$/.exec(argument) ?? []
  const [os, cpu, libc = 'gnu'] = platform ? platform.split('-') : [process.platform, process.arch]
  if (!os || !cpu || (libc !== 'gnu' && libc !== 'musl')) throw new Error(`${argument} names no platform; write for example linux-arm64=FOLDER`)
  return { os, cpu, libc, folder: resolve(folder) }
}

/**
 * @param {string} folder a package as it shall be
 * @param {string} target where the tarball goes
 */
function npmPack(folder, target) {
  const output = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--offline', '--pack-destination', target], { cwd: folder, encoding: 'utf8' })
  console.log(join(target, JSON.parse(output)[0].filename))
}

/** @param {string} folder @param {object} manifest */
function writeManifest(folder, manifest) {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  cpSync(join(CHECKOUT, 'LICENSE'), join(folder, 'LICENSE'))
}

/** @param {any} main the manifest @param {Build} build @param {string} folder */
function layOutPlatform(main, { os, cpu, libc, folder: build }, folder) {
  const name = platformPackage(os, cpu, libc)
  const libcName = libc === 'gnu' ? 'glibc' : libc
  const files = [...(libc === 'musl' ? [] : [libraryName(os)]), `bin/${toolName(os)}`]
  const what = `of mcprt for ${os} on ${cpu}${os === 'linux' ? ` with ${libcName}` : ''}`
  const content = libc === 'musl' ? 'The command line tool' : 'The shared library and the command line tool'
  writeManifest(folder, {
    name,
    version: main.version,
    description: `${content} ${what}`,
    license: main.license,
    os: [os],
    cpu: [cpu],
    ...(os === 'linux' ? { libc: [libcName] } : {}),
    engines: main.engines,
    files,
    // A library inside an archive cannot be loaded.
    preferUnplugged: true,
  })
  mkdirSync(join(folder, 'bin'))
  const sources = files.map((file) => join(build, basename(file)))
  for (const [i, source] of sources.entries()) {
    if (!existsSync(source)) throw new Error(`${source} does not exist; run "make build" first`)
    cpSync(source, join(folder, files[i]))
    chmodSync(join(folder, files[i]), 0o755)
  }
  writeFileSync(join(folder, 'README.md'), `# ${name}\n\n${content} ${what}. Install the package \`mcprt\`, which brings it along.\n`)
  return name
}

/** @param {any} main the manifest @param {string[]} platforms @param {string} folder */
function layOutMain({ devDependencies, scripts, ...main }, platforms, folder) {
  writeManifest(folder, { ...main, optionalDependencies: Object.fromEntries(platforms.map((name) => [name, main.version])) })
  for (const file of main.files) {
    const source = file === 'index.d.cts' ? 'index.d.ts' : file // the same names, whichever way they are asked for
    cpSync(join(PACKAGE, source), join(folder, file), { recursive: true })
  }
}

const [target, ...builds] = process.argv.slice(2)
if (!target) throw new Error('where to? node pack.js FOLDER [BUILD …]')
mkdirSync(target, { recursive: true })
const main = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8'))
const work = mkdtempSync(join(tmpdir(), 'mcprt-pack-'))
try {
  const platforms = (builds.length > 0 ? builds : [join(CHECKOUT, 'build')]).map((argument, i) => {
    const folder = join(work, `platform-${i}`)
    const name = layOutPlatform(main, parseBuild(argument), folder)
    npmPack(folder, resolve(target))
    return name
  })
  layOutMain(main, platforms, join(work, 'main'))
  npmPack(join(work, 'main'), resolve(target))
} finally {
  rmSync(work, { recursive: true })
}
