/**
 * `make npm`: writes the packages as npm would publish them.
 *
 *     node pack.js FOLDER [BUILD …]
 *
 * One main package without anything of a platform, and one package for each BUILD: a
 * folder with the library and the tool (default: build/ of this checkout, for this
 * machine), or PLATFORM=FOLDER with PLATFORM such as linux-arm64. The main package
 * names those platforms, in exactly its version, as optional dependencies, so that
 * npm installs the one that fits.
 */

import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { PACKAGE, libraryName, platformPackage, toolName } from './lib/platform.js'

const CHECKOUT = resolve(PACKAGE, '..', '..')

/**
 * @typedef {object} Build
 * @property {string} os in the words of process.platform
 * @property {string} cpu in the words of process.arch
 * @property {string} folder
 */

/** @param {string} argument @returns {Build} */
function parseBuild(argument) {
  const [, platform, folder] = /^(?:([^=]*)=)?(.*)$/.exec(argument) ?? []
  const [os, cpu] = platform ? platform.split('-') : [process.platform, process.arch]
  if (!os || !cpu) throw new Error(`${argument} names no platform; write for example linux-arm64=FOLDER`)
  return { os, cpu, folder: resolve(folder) }
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
function layOutPlatform(main, { os, cpu, folder: build }, folder) {
  const name = platformPackage(os, cpu)
  const files = [libraryName(os), `bin/${toolName(os)}`]
  const what = `for ${os} on ${cpu}${os === 'linux' ? ' with glibc' : ''}`
  writeManifest(folder, {
    name,
    version: main.version,
    description: `The shared library and the command line tool of mcprt ${what}`,
    license: main.license,
    os: [os],
    cpu: [cpu],
    ...(os === 'linux' ? { libc: ['glibc'] } : {}),
    engines: main.engines,
    files,
    // A library inside an archive cannot be loaded.
    preferUnplugged: true,
  })
  mkdirSync(join(folder, 'bin'))
  const sources = [join(build, libraryName(os)), join(build, toolName(os))]
  for (const [i, source] of sources.entries()) {
    if (!existsSync(source)) throw new Error(`${source} does not exist; run "make build" first`)
    cpSync(source, join(folder, files[i]))
    chmodSync(join(folder, files[i]), 0o755)
  }
  writeFileSync(join(folder, 'README.md'), `# ${name}\n\nThe shared library and the command line tool of mcprt ${what}. Install the package \`mcprt\`, which brings it along.\n`)
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
