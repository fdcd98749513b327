import ArgumentParser

/// A duration with its unit, as in Lanyard's configuration: `500ms`, `20s`, `30m`, `12h`, `60d`.
struct DurationArgument: ExpressibleByArgument, CustomStringConvertible {
    let seconds: Double

    init(seconds: Double) { self.seconds = seconds }

    init?(argument: String) {
        let digits = argument.prefix { $0.isASCII && $0.isNumber }
        let units = ["ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let count = Double(digits), count > 0, let unit = units[String(argument.dropFirst(digits.count))] else {
            return nil
        }
        seconds = count * unit
    }

    var description: String { seconds == seconds.rounded() ? "\(Int(seconds))s" : "\(Int(seconds * 1000))ms" }
}
