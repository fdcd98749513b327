/// The version of this build, in `lanyard version`, `lanyard_build_info` and `/v1/status`.
package enum BuildVersion {
    /// Semantic version.
    package static let number = "0.1.0"
}
