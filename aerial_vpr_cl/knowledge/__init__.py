"""What the drone knows on disk: immutable generations, committed atomically."""
