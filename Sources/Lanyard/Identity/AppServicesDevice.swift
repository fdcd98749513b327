import Glibc

/// `options.device` of a login: the twelve members that core sends (appservices.md 2.2); unknown ones are empty.
struct AppServicesDevice: Sendable {
    let appID: String
    let version: String

    func write(into buffer: inout SecretBuffer) {
        var system = utsname()
        uname(&system)
        let members = [
            ("appId", appID), ("platform", Self.text(&system.sysname)), ("platformVersion", Self.text(&system.release)),
            ("sdk", "Lanyard"), ("sdkVersion", version), ("cpuArch", Self.text(&system.machine)), ("deviceName", ""),
            ("deviceVersion", ""), ("frameworkName", ""), ("frameworkVersion", ""), ("coreVersion", ""),
            ("bundleId", ""),
        ]
        for (index, (name, value)) in members.enumerated() {
            buffer.append(index == 0 ? "{" : ",")
            JSONText.write(name, into: &buffer)
            buffer.append(":")
            JSONText.write(value, into: &buffer)
        }
        buffer.append("}")
    }

    /// The C string in one of `utsname`'s arrays.
    private static func text<Array>(_ characters: inout Array) -> String {
        withUnsafeBytes(of: &characters) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}
