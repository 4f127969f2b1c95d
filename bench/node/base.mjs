// What Node takes with koffi loaded.
import { readFileSync } from 'node:fs'
import koffi from 'koffi'

koffi.pointer('void')
console.log(JSON.stringify({ rss_kb: Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) }))
