/// What this build calls itself, in `lanyard version`, `lanyard_build_info` and `/v1/status`.
package enum BuildVersion {
    /// Semantic version.
    package static let number = "0.1.0"
    /// The source it was built from, once a release build says so.
    package static let commit = "unknown"
}
