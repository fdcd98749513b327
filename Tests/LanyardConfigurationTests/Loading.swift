import TestSupport

@testable import LanyardConfiguration

/// Loads documents as `lanyard check` does, from a file called `lanyard.yaml` in a folder of its own.
enum Loading {
    /// A small valid document, of which tests replace parts. Its users' token is the file `token`.
    static let identities = "identities:\n  demo:\n    static: {token_file: token}\n"
    static let users = "users:\n  alice: {identity: demo}\n"
    static let routes = "routes:\n  - upstream: http://127.0.0.1:9000\n"
    static let whole = identities + users + routes

    /// - Parameter files: names of secrets that stand beside the document; `ca.pem` and `cert.pem` are certificates.
    static func load(
        _ text: String, arguments: [String] = [], environment: [String: String] = [:], files: [String] = ["token"]
    ) throws -> (loaded: LoadedConfiguration, diagnostics: [String]) {
        let folder = try TemporaryFolder()
        for file in files {
            let isCertificate = ["ca.pem", "cert.pem"].contains(file)
            try folder.write(file, isCertificate ? TestCertificate.pem : "secret-of-thirty-two-bytes-or-more\n")
        }
        let path = try folder.write("lanyard.yaml", text)
        let loaded = Configuration.load(arguments: ["--config", path] + arguments, environment: environment)
        let diagnostics = loaded.diagnostics.map { error in
            let line = error.severity == .error ? "\(error)" : "\(error.severity.rawValue): \(error)"
            return line.replacing(folder.path + "/", with: "")
        }
        return (loaded, diagnostics)
    }

    /// All errors as an operator reads them, without the folder; what is not a plain fault begins with its severity.
    static func diagnostics(
        _ text: String, arguments: [String] = [], environment: [String: String] = [:], files: [String] = ["token"]
    ) throws -> [String] {
        try load(text, arguments: arguments, environment: environment, files: files).diagnostics
    }
}
