import LanyardConfiguration
import LanyardRequestPath

/// Holds the reading of the configuration to its promises: one text, one meaning; a text ends in settings or in faults that say
/// where and what; and what `check` prints loads again as the same settings and prints the same.
///
/// It is not fed in pieces: a configuration is parsed when its file has been read to the end.
final class YAMLFuzz: FuzzTarget {
    func check(_ input: Bytes) throws(BrokenPromise) {
        let loaded = Configuration.load(text: Array(input), path: "f")
        guard let configuration = loaded.configuration else {
            try BrokenPromise.unless(loaded.diagnostics.contains { $0.severity == .error }, "no settings, and no fault")
            return try checkFaults(loaded.diagnostics)
        }
        try checkFaults(loaded.diagnostics)
        try BrokenPromise.unless(
            loaded.diagnostics.allSatisfy { $0.severity == .warning }, "settings in spite of a fault")
        let again = Configuration.load(text: Array(loaded.printed.utf8), path: "f")
        try BrokenPromise.unless(again.configuration == configuration, "what is printed loads as other settings")
        try BrokenPromise.unless(again.printed == loaded.printed, "what is printed prints otherwise")
    }

    private func checkFaults(_ diagnostics: [ConfigurationError]) throws(BrokenPromise) {
        try BrokenPromise.unless(diagnostics.count <= 101, "more errors than an operator reads")
        try BrokenPromise.unless(
            diagnostics.allSatisfy { !$0.message.isEmpty && !$0.remedy.isEmpty && $0.severity != .usage },
            "a fault without words or remedy")
        try BrokenPromise.unless(
            diagnostics.allSatisfy { !$0.description.utf8.contains { $0 < 0x20 } }, "a fault of more than one line")
    }
}
