FROM debian-base
CMD ["python3"]
