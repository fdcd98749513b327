import Glibc
import LanyardFoundations

/// The usual `process_*` samples, and the build information.
package enum ProcessMetrics {
    /// All samples. A value that cannot be read is left out. Takes about a millisecond, most of it for `smaps_rollup`.
    package static func samples(version: String, commit: String) -> [MetricSample] {
        let labels = [MetricSample.Label("version", version), MetricSample.Label("commit", commit)]
        return [MetricSample("lanyard_build", suffix: "_info", labels: labels, value: 1)]
            + stat() + memory() + descriptors()
    }

    /// /proc/self/stat (proc(5)): the fields behind the command's name, which may hold spaces and parentheses.
    private static func stat() -> [MetricSample] {
        guard let text = ProcFile.read("/proc/self/stat"), let end = text.lastIndex(of: ")") else { return [] }
        let fields = text[text.index(after: end)...].split(separator: " ").map { Double($0) ?? 0 }
        // fields[0] is field 3 of proc(5), the state.
        guard fields.count > 21 else { return [] }
        let ticks = Double(sysconf(CInt(_SC_CLK_TCK)))
        var samples = [
            MetricSample("process_cpu_seconds", suffix: "_total", value: (fields[11] + fields[12]) / ticks),
            MetricSample("process_threads", value: fields[17]),
            MetricSample("process_virtual_memory_bytes", value: fields[20]),
        ]
        if let boot = bootTime() {
            samples.append(MetricSample("process_start_time_seconds", value: boot + fields[19] / ticks))
        }
        return samples
    }

    private static func bootTime() -> Double? {
        let line = ProcFile.read("/proc/stat", bytesMax: 1 << 20)?.split(separator: "\n").first {
            $0.hasPrefix("btime ")
        }
        return line.flatMap { Double($0.dropFirst(6)) }
    }

    private static func memory() -> [MetricSample] {
        let names = ["Rss:": "process_resident_memory_bytes", "Pss:": "process_proportional_memory_bytes"]
        let lines = ProcFile.read("/proc/self/smaps_rollup")?.split(separator: "\n") ?? []
        let samples = lines.compactMap { line -> MetricSample? in
            let words = line.split(separator: " ")
            guard words.count == 3, let name = names[String(words[0])], let kibibytes = Double(words[1]) else {
                return nil
            }
            return MetricSample(name, value: kibibytes * 1024)
        }
        if !samples.isEmpty { return samples }
        // Kernels without smaps_rollup: pages of statm.
        let words = ProcFile.read("/proc/self/statm")?.split(separator: " ") ?? []
        guard words.count > 1, let pages = Double(words[1]) else { return [] }
        return [MetricSample("process_resident_memory_bytes", value: pages * Double(sysconf(CInt(_SC_PAGESIZE))))]
    }

    private static func descriptors() -> [MetricSample] {
        [("process_open_fds", openDescriptors), ("process_max_fds", descriptorsMax)].compactMap { name, number in
            number.map { MetricSample(name, value: Double($0)) }
        }
    }

    /// Descriptors that the process has; nil: they cannot be counted. The time that it takes grows with their number.
    package static var openDescriptors: Int? {
        // The open folder's own descriptor is one of them.
        ProcFile.entryCount("/proc/self/fd").map { $0 - 1 }
    }

    /// Descriptors that it may have.
    package static var descriptorsMax: Int? {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return Int(clamping: limit.rlim_cur)
    }
}
